"""One run: a fresh root, a checkout in it as the case wants, and a command."""

import dataclasses
import glob
import os
import pathlib
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from . import carried, checkout, kernel, mounts, roots
from .cases import Case
from .namespaces import run_apart, wait_for
from .place import Place

#: Fills .venv, so that nothing is left to fetch.
SETUP = 'make .venv/.installed'
NOT_FOUND = 127
_PATHS = {'root': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'}
_PATH = '/usr/local/bin:/usr/bin:/bin'


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
        suite, case = self._order.suite, self._case
        mounts.mount_root(self._cached, self._scratch, lambda text: self._say(f'{suite}: {text}'))
        mounts.mount_system(self._root, shm=case.shm)
        if case.tmp:
            options = f'mode=1777,{case.tmp}'
            kernel.mount('tmpfs', self._root / 'tmp', 'tmpfs', options=options)
        carried.carry(os.environ, self._root, case.home)
        checkout.lay(self._order.repository, case, self._root)
        self._say(f'{suite}: {case.about}, in {case.folder}')
        result = 0
        if self._order.setup_command:
            result = self._step(['sh', '-c', self._order.setup_command], offline=False)
        if result == 0:
            result = self._step(self._order.command, offline=self._case.offline)
        self._bring_out()
        return result

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
