"""One run: a fresh root, a checkout in it as the case wants, and a command."""

import dataclasses
import glob
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from . import carried, checkout, kernel, roots
from .cases import Case
from .namespaces import run_apart, wait_for
from .place import Place

#: Fills .venv, so that nothing is left to fetch.
SETUP = 'make .venv/.installed'
NOT_FOUND = 127
_PATHS = {'root': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'}
_PATH = '/usr/local/bin:/usr/bin:/bin'
_DEVICES = ('null', 'zero', 'full', 'random', 'urandom', 'tty')
_LINKS = {'fd': '/proc/self/fd', 'stdin': 'fd/0', 'stdout': 'fd/1', 'stderr': 'fd/2'}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """Command, case and options of a run."""

    suite: str
    case: Case
    command: Sequence[str]
    repository: pathlib.Path
    # Run first, where there still is a network; nothing means SETUP where the case needs it.
    setup: str = ''
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Patterns of files in the checkout, and the folder of this machine they go to.
    bring_out: Sequence[tuple[str, pathlib.Path]] = ()

    @property
    def setup_command(self) -> str:
        """The command that is run first; empty if none."""
        return self.setup or (SETUP if self.case.offline else '')


def run(place: Place, order: Order, say: Callable[[str], None]) -> int:
    """Run a command in a fresh root, and return its exit status."""
    with roots.cached(place, order.suite, say) as root, place.scratch() as scratch:
        result = run_apart(lambda: _Inside(root, scratch, order, say).run())
    say(f'{order.suite}, {order.case.name}: ended with {result}')
    return result


class _Inside:
    """A run, seen from the first process of its namespaces."""

    def __init__(
        self,
        cached: pathlib.Path,
        scratch: pathlib.Path,
        order: Order,
        say: Callable[[str], None],
    ):
        self._cached = cached
        self._scratch = scratch
        self._order = order
        self._case = order.case
        self._say = say
        self._root = scratch / 'root'

    def run(self) -> int:
        """Set the machine up, run the command, copy the requested files out."""
        self._mount_root()
        self._mount_system()
        carried.carry(os.environ, self._root, self._case.home)
        checkout.lay(self._order.repository, self._case, self._root)
        self._say(f'{self._order.suite}: {self._case.about}, in {self._case.folder}')
        result = 0
        if self._order.setup_command:
            result = self._step(['sh', '-c', self._order.setup_command], offline=False)
        if result == 0:
            result = self._step(self._order.command, offline=self._case.offline)
        self._bring_out()
        return result

    # ---- the machine -----------------------------------------------------

    def _mount_root(self) -> None:
        """Mount an overlay on the cached root; copy the root if that fails."""
        upper, work = self._scratch / 'upper', self._scratch / 'work'
        for folder in (upper, work, self._root):
            folder.mkdir()
            folder.chmod(0o755)
        # Not "volatile": what a test writes must cost what it costs on a user's machine.
        layers = f'lowerdir={self._cached},upperdir={upper},workdir={work}'
        try:
            kernel.mount('overlay', self._root, 'overlay', options=layers)
        except OSError:
            # A folder on an overlay, as in a container, cannot be an upper layer.
            self._say(f'{self._order.suite}: copying the root, because overlays do not work here')
            subprocess.run(
                ['cp', '-a', '--reflink=auto', f'{self._cached}/.', self._root], check=True
            )

    def _mount_system(self) -> None:
        root, case = self._root, self._case
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
        kernel.mount(
            'tmpfs', dev / 'shm', 'tmpfs', options=','.join(filter(None, ['mode=1777', case.shm]))
        )
        if case.tmp:
            kernel.mount('tmpfs', root / 'tmp', 'tmpfs', options=f'mode=1777,{case.tmp}')

    # ---- commands --------------------------------------------------------

    def _step(self, command: Sequence[str], *, offline: bool) -> int:
        self._say(f'{self._order.suite}: $ {shlex.join(command)}')
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                self._become(command, offline=offline)
            except OSError as error:
                print(f'freshroot: {command[0]}: {error.strerror}', file=sys.stderr, flush=True)
            finally:
                os._exit(NOT_FOUND)
        return wait_for(child)

    def _become(self, command: Sequence[str], *, offline: bool) -> None:
        """Turn this process into the command."""
        uid, gid = checkout.ids(self._root, self._case.user)
        if offline:
            kernel.unshare(kernel.CLONE_NEWNET)
            kernel.loopback_up()
        os.chroot(self._root)
        os.chdir(self._case.folder)
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
        os.umask(0o022)
        for number in (signal.SIGINT, signal.SIGQUIT):
            ignored = self._case.sigint_ignored
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them for itself
        os.execvpe(command[0], list(command), self._environment())

    def _environment(self) -> dict[str, str]:
        user = self._case.user
        return {
            'HOME': self._case.home,
            'LANG': 'C.UTF-8',
            'LOGNAME': user,
            'PATH': _PATHS.get(user, _PATH),
            'SHELL': '/bin/bash',
            'USER': user,
            **carried.environment(os.environ),
            **self._order.environment,
        }

    # ---- results ---------------------------------------------------------

    def _bring_out(self) -> None:
        folder = self._root / self._case.folder.lstrip('/')
        for pattern, target in self._order.bring_out:
            found = [
                path
                for name in glob.glob(pattern, root_dir=folder, recursive=True)
                if (path := folder / name).is_file() and not path.is_symlink()
            ]
            target.mkdir(parents=True, exist_ok=True)
            for path in found:
                shutil.copyfile(path, target / path.name)
            self._say(f'{self._order.suite}: {len(found)} files {pattern} are in {target}')
