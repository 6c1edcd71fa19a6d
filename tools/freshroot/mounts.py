"""A root as a command sees it: writable, with the devices and file systems of a machine."""

import pathlib
import subprocess
from collections.abc import Callable

from . import kernel

_DEVICES = ('null', 'zero', 'full', 'random', 'urandom', 'tty')
_LINKS = {'fd': '/proc/self/fd', 'stdin': 'fd/0', 'stdout': 'fd/1', 'stderr': 'fd/2'}


def mount_root(cached: pathlib.Path, scratch: pathlib.Path, say: Callable[[str], None]) -> None:
    """Mount an overlay of a cached root at ``scratch/root``; copy the root if that fails."""
    root, upper, work = scratch / 'root', scratch / 'upper', scratch / 'work'
    for folder in (upper, work, root):
        folder.mkdir()
        folder.chmod(0o755)
    # Not "volatile": what a test writes must cost what it costs on a user's machine.
    layers = f'lowerdir={cached},upperdir={upper},workdir={work}'
    try:
        kernel.mount('overlay', root, 'overlay', options=layers)
    except OSError:
        # A folder on an overlay, as in a container, cannot be an upper layer.
        say('copying the root, because overlays do not work here')
        subprocess.run(['cp', '-a', '--reflink=auto', f'{cached}/.', root], check=True)


def mount_system(root: pathlib.Path, *, shm: str | None = None) -> None:
    """Mount /proc, /sys and /dev; ``shm`` are options of the tmpfs at /dev/shm."""
    kernel.mount('proc', root / 'proc', 'proc')
    kernel.mount('sysfs', root / 'sys', 'sysfs', kernel.MS_RDONLY)
    dev = root / 'dev'
    kernel.mount('tmpfs', dev, 'tmpfs', options='mode=755')
    for name in _DEVICES:
        (dev / name).touch()
        kernel.mount(f'/dev/{name}', dev / name, flags=kernel.MS_BIND)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    (dev / 'pts').mkdir()
    kernel.mount('devpts', dev / 'pts', 'devpts', options='newinstance,ptmxmode=666,mode=620')
    (dev / 'ptmx').symlink_to('pts/ptmx')
    (dev / 'shm').mkdir()
    options = ','.join(filter(None, ['mode=1777', shm]))
    kernel.mount('tmpfs', dev / 'shm', 'tmpfs', options=options)
