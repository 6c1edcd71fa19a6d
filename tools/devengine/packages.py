"""Debian packages that an engine needs."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

from .errors import EngineError

# Images cannot be fetched without a registry; one is made from a static shell.
_SHELL = {'busybox': 'busybox-static'}
#: What to look for, and the Debian package that has it.
DOCKER = {**_SHELL, 'dockerd': 'docker.io', 'iptables': 'iptables', 'ip': 'iproute2'}
PODMAN = {
    **_SHELL,
    'podman': 'podman',
    'runc': 'runc',
    'iptables': 'iptables',
    'ip': 'iproute2',
    '/usr/lib/podman/netavark': 'netavark',
    '/usr/lib/podman/aardvark-dns': 'aardvark-dns',
}
_PATH = f'{os.defpath}:/usr/sbin:/sbin:/usr/local/bin:/usr/local/sbin'
_LOCK_S = 300


def install(programs: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Install missing packages."""
    missing = sorted({programs[name] for name in programs if not shutil.which(name, path=_PATH)})
    if not missing:
        return
    say(f'installing {" ".join(missing)}')
    apt = ['apt-get', '-qq', '-o', f'DPkg::Lock::Timeout={_LOCK_S}']
    environment = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}
    for command in (
        [*apt, 'update'],
        [*apt, 'install', '-y', '--no-install-recommends', *missing],
    ):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise EngineError(f'{" ".join(command)}: {done.stderr.strip()}')
