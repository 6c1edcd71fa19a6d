"""A bare machine whose first process is systemd.

    python -m tests.functional.systemd.machine CACHED SCRATCH GIVEN SETUP

The machine is a bare Debian root in namespaces of its own, as in a container. It has no network
and cannot change the kernel; the file ``SCRATCH/pid`` has the number of its first process. The
command SETUP runs before systemd does, with the network of the host; the folder GIVEN is at /srv.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from tools.freshroot import carried, kernel, mounts, roots
from tools.freshroot.namespaces import run_apart, status
from tools.freshroot.place import Place, default_home

REPOSITORY = pathlib.Path(__file__).parents[3]
PACKAGES = ('ca-certificates', 'dbus', 'python3', 'python3-venv', 'systemd')
#: The same Python as that of most test machines, and a systemd that ships for long.
SUITE = 'bookworm'
PATIENCE_S = 300.0
ENVIRONMENT = {
    'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'LANG': 'C.UTF-8',
    'HOME': '/root',
}
CLONE_NEWCGROUP, CLONE_NEWUTS = 0x02000000, 0x04000000
MS_MOVE, MS_SHARED = 8192, 1 << 20
PR_CAPBSET_DROP = 24
#: Capabilities with which a first process could change this machine: to load modules, to
#: access hardware, and to set the clock.
DROPPED = (16, 17, 25)


class Machine:
    """A machine that a test starts, logs into and ends."""

    def __init__(
        self, cached: pathlib.Path, scratch: pathlib.Path, given: pathlib.Path, setup: str
    ):
        self._scratch = scratch
        command = [sys.executable, '-m', __name__, str(cached), str(scratch), str(given), setup]
        self._process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL)
        self._pid = 0

    def wait_until_booted(self):
        """Return once systemd has started all that it starts by itself."""
        ends_at = time.monotonic() + PATIENCE_S
        while not self._has_booted():
            if self._process.poll() is not None or time.monotonic() > ends_at:
                raise AssertionError('the machine does not boot')
            time.sleep(0.1)

    def _has_booted(self):
        with contextlib.suppress(FileNotFoundError, ValueError):
            self._pid = int((self._scratch / 'pid').read_text())
        if not self._pid:
            return False
        # Anything but "running" is a unit of the root that needs a real machine.
        state = self.run('systemctl', 'is-system-running', check=False).stdout.strip()
        return state in ('running', 'degraded')

    def run(self, *command: str, check: bool = True, **options: object):
        """Run a command in the machine as root; return what it prints."""
        enter = ['nsenter', f'--target={self._pid}', '--all', '--root', '--', 'env', '--chdir=/']
        done = subprocess.run(
            [*enter, *command],
            env=ENVIRONMENT, capture_output=True, text=True, check=False, **options,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f'{command} ended with {done.returncode}: {done.stderr}')
        return done

    def journal(self, unit: str) -> list[dict[str, str]]:
        """Return what systemd and a unit have logged."""
        lines = self.run('journalctl', f'--unit={unit}', '--output=json', '--no-pager').stdout
        return [json.loads(line) for line in lines.splitlines()]

    def end(self):
        """End all processes of the machine."""
        self._process.terminate()
        self._process.wait()
        for top in cgroups().glob(f'{group_name(self._scratch)}*'):
            for folder, _, _ in os.walk(top, topdown=False):
                pathlib.Path(folder).rmdir()


@contextlib.contextmanager
def machine(given: pathlib.Path, setup: str):
    """Yield a machine that has booted, set up by a command of the shell from a folder at /srv."""
    place = Place(default_home())

    def say(text):
        print(text, file=sys.stderr, flush=True)

    with (
        roots.cached(place, SUITE, say, PACKAGES) as cached,
        place.scratch() as scratch,
        contextlib.ExitStack() as stack,
    ):
        found = Machine(cached, scratch, given, setup)
        stack.callback(found.end)
        found.wait_until_booted()
        yield found


def cgroups() -> pathlib.Path:
    """Return where the second version of control groups is mounted."""
    for line in pathlib.Path('/proc/self/mounts').read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == 'cgroup2':
            return pathlib.Path(path)
    raise AssertionError('needs control groups of version 2: mount -t cgroup2')


def group_name(scratch: pathlib.Path) -> str:
    return f'kiln-{scratch.name}'


# ---- the first process of the machine ----------------------------------------


def boot(cached: pathlib.Path, scratch: pathlib.Path, given: pathlib.Path, setup: str) -> int:
    """Set a machine up, and become its systemd."""
    # Namespaces have their own /proc only after the next mount.
    pid = os.readlink('/proc/self')
    group = cgroups() / group_name(scratch)
    # What the machine writes needs no disk, and ends with it.
    memory, root = scratch / 'memory', scratch / 'memory/root'
    memory.mkdir()
    kernel.mount('tmpfs', memory, 'tmpfs', options='mode=755')
    mounts.mount_root(cached, memory, print)
    mounts.mount_system(root)
    carried.carry(os.environ, root, ENVIRONMENT['HOME'])
    kernel.mount(given, root / 'srv', flags=kernel.MS_BIND)
    bind_cache(root)
    prepare(root, setup)
    group.mkdir()
    (group / 'cgroup.procs').write_text('0')  # this process
    kernel.unshare(kernel.CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_NEWUTS)
    kernel.mount('cgroup2', root / 'sys/fs/cgroup', 'cgroup2')
    for path in (root / 'proc/sys', root / 'proc/sysrq-trigger'):
        if path.exists():
            kernel.mount(path, path, flags=kernel.MS_BIND)
            read_only = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY
            kernel.mount('none', path, flags=read_only)
    for number in DROPPED:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    (scratch / 'pid').write_text(pid)
    os.chdir(root)
    kernel.mount('.', '/', flags=MS_MOVE)
    os.chroot('.')
    # What systemd mounts for a service in a namespace aside has to arrive here.
    kernel.mount('none', '/', flags=kernel.MS_REC | MS_SHARED)
    os.execve('/lib/systemd/systemd', ['systemd'], ENVIRONMENT | {'container': 'kiln-test'})


def bind_cache(root: pathlib.Path) -> None:
    """Give pip of the machine what pip of this machine has fetched before."""
    cache = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'pip')
    cache.mkdir(parents=True, exist_ok=True)
    target = root / ENVIRONMENT['HOME'].lstrip('/') / '.cache/pip'
    target.mkdir(parents=True, exist_ok=True)
    kernel.mount(cache, target, flags=kernel.MS_BIND)


def prepare(root: pathlib.Path, setup: str) -> None:
    child = os.fork()
    if child == 0:
        os.chroot(root)
        os.chdir('/root')
        environment = ENVIRONMENT | carried.environment(os.environ)
        os.execve('/bin/sh', ['sh', '-ec', setup], environment)
    if code := status(os.waitpid(child, 0)[1]):
        raise AssertionError(f'the setup failed with {code}')


if __name__ == '__main__':
    kernel.die_with_parent(signal.SIGTERM)
    # Then all processes of the machine have ended when this one has.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(run_apart(lambda: boot(*map(pathlib.Path, sys.argv[1:4]), sys.argv[4])))
