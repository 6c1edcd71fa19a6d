"""Environment of a vendor who has followed the guide literally, beside a checkout."""

import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tests.functional.scaffold.guide import Command, File, steps_of

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / 'doc' / 'source' / 'contributor' / 'writing-a-driver.rst'
_MARK = '=== status of the command: '


class Follower:
    """Runs the guide; ``done`` has each command with its exit status and its output."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory()
        home = Path(self._home.name)
        self.folder = home / 'drivers'
        self.folder.mkdir()
        (self.folder / 'kiln').symlink_to(ROOT)
        self.package = self.folder / 'kiln-driver-acme'
        self._environment = _environment(home)
        self.done = self._follow(list(steps_of(GUIDE.read_text())))

    def _follow(self, steps: list[File | Command]) -> list[tuple[Command, int, str]]:
        # All in one shell: an activated environment and the directory stay for the next command.
        script = ''
        for step in steps:
            if isinstance(step, File):
                name = step.name.replace('~', '$HOME')
                script += f'mkdir -p "$(dirname "{name}")"\n'
                script += f'cat >"{name}" <<"END OF FILE"\n{step.text}END OF FILE\n'
            else:
                script += f'{{ {step.line}\n}} </dev/null\nprintf "\\n{_MARK}%s\\n" $?\n'
        printed = self.shell(script).stdout
        commands = [step for step in steps if isinstance(step, Command)]
        *parts, rest = re.split(rf'\n{_MARK}(\d+)\n', printed)
        assert not rest, rest
        assert len(parts) == 2 * len(commands), printed
        return [
            (command, int(status), said)
            for command, said, status in zip(commands, parts[::2], parts[1::2], strict=True)
        ]

    def shell(self, script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run lines in a shell; its errors are part of its output."""
        return subprocess.run(
            ['bash'], input=script, cwd=cwd or self.folder, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip

    def run(self, tool: str, *args: str, cwd: Path | None = None, status: int = 0) -> str:
        """Run a tool of the guide's environment; return its output."""
        command = [str(self.folder / '.venv' / 'bin' / tool), *args]
        done = self.shell(shlex.join(command), cwd)
        if done.returncode != status:
            raise AssertionError(f'{shlex.join(command)}\n{done.stdout}')
        return done.stdout


def _environment(home: Path) -> dict[str, str]:
    # The checkout and the packages of these tests must not be found by accident; and pytest
    # prints longer lines in CI.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(('PYTHON', 'VIRTUAL_ENV', 'KILN_', 'COVERAGE_', 'OS_'))
        and name not in ('CI', 'BUILD_NUMBER')
    }
    ours = str(Path(sys.executable).parent)
    base = str(Path(os.path.realpath(sys.executable)).parent)
    others = [path for path in kept.get('PATH', '').split(os.pathsep) if path != ours]
    cache = kept.get('PIP_CACHE_DIR') or str(Path.home() / '.cache' / 'pip')
    return {
        **kept,
        'HOME': str(home),
        'PATH': os.pathsep.join([base, *others]),
        'PIP_CACHE_DIR': cache,
        # Most installed modules are never imported.
        'PIP_NO_COMPILE': '1',
        'LC_ALL': 'C.UTF-8',
        'COLUMNS': '80',
    }


@functools.cache
def vendor() -> Follower:
    """Return the environment at the end of the guide; the same for each call."""
    return Follower()


@functools.cache
def author() -> Follower:
    """Return the same environment with the extra for clusters, installed as kiln advises."""
    follower = vendor()
    said = follower.run('kiln', 'driver', 'test', 'nodes_v1', status=2)
    (command,) = re.findall(r"Run: (pip install '.*')\.$", said.strip())
    follower.run(*shlex.split(command))
    return follower


class VendorCase(unittest.TestCase):
    """Base of tests in the environment of a vendor who has followed the guide."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.vendor = vendor()
