"""Software of the cloud: Debian packages and virtual environments."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from .errors import CloudError
from .place import Place

HERE = pathlib.Path(__file__).parent
CONSTRAINTS = HERE / 'constraints.txt'
PLUGINS = HERE / 'inside' / 'plugins'

# One file of each Debian package, and the package.
DEBIAN = {
    '/usr/sbin/mariadbd': 'mariadb-server',
    '/usr/lib/rabbitmq/bin/rabbitmq-server': 'rabbitmq-server',
    '/usr/bin/memcached': 'memcached',
    # Debian's Python lacks the packages that a virtual environment needs.
    f'{os.path.dirname(os.__file__)}/ensurepip/__init__.py': 'python3-venv',
}
POLICY = pathlib.Path('/usr/sbin/policy-rc.d')
# Neutron finds a mechanism driver by its entry point only.
ENTRY_POINTS = """[neutron.ml2.mechanism_drivers]
kiln = kiln_ml2:KilnMechanismDriver
"""


def run(place: Place, log_name: str, *command: str | pathlib.Path, **environment: str) -> None:
    """Run one step of an installation; its output goes to a log of its own."""
    log = place.log / f'setup-{log_name}.log'
    words = [str(word) for word in command]
    with log.open('ab') as output:
        output.write(f'\n$ {" ".join(words)}\n'.encode())
        output.flush()
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=place.environment(**environment),
            check=False,
        )
    if done.returncode:
        step = ' '.join([os.path.basename(words[0]), *words[1:]])
        raise CloudError(f'{log_name}: "{step}" failed with {done.returncode}', log)


def debian_packages(
    more: Mapping[str, str], exists: Callable[[str], bool] = os.path.exists
) -> list[str]:
    """Return the Debian packages that are missing, of all clouds and of this one."""
    return [package for file, package in (DEBIAN | dict(more)).items() if not exists(file)]


def install_debian(place: Place, more: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Install the missing packages of the servers, and of Python itself."""
    absent = debian_packages(more)
    if not absent:
        return
    if os.geteuid() != 0 or shutil.which('apt-get') is None:
        raise CloudError(f'as root, run: apt-get install {" ".join(absent)}')
    say(f'installing {" ".join(absent)}, with apt')
    # Debian would start a server of its own for each package.
    made = not POLICY.exists()
    if made:
        POLICY.write_text('#!/bin/sh\nexit 101\n')
        POLICY.chmod(0o755)
    try:
        run(place, 'apt', 'apt-get', 'update', '-q')
        run(
            place,
            'apt',
            'apt-get',
            'install',
            '-y',
            '-q',
            # Another process can be installing too.
            '-o',
            'DPkg::Lock::Timeout=600',
            '--no-install-recommends',
            *absent,
            DEBIAN_FRONTEND='noninteractive',
        )
    finally:
        if made:
            POLICY.unlink()


class Venv:
    """A virtual environment that grows with its requirements, and never shrinks."""

    def __init__(self, place: Place, name: str):
        self._place = place
        self._name = name
        self.path = place.home / name
        self.stamp = place.home / f'{name}.stamp'

    @property
    def python(self) -> pathlib.Path:
        """Its interpreter."""
        return self.path / 'bin' / 'python'

    def script(self, name: str) -> tuple[str, str]:
        """Return the command of a console script.

        Its first line can name the interpreter of the folder it was copied from.
        """
        return str(self.python), str(self.path / 'bin' / name)

    def file(self, name: str) -> pathlib.Path:
        """Return the path of a data file that a package installs."""
        return self.path / 'etc' / name

    def install(self, requirements: Iterable[str], say: Callable[[str], None]) -> None:
        """Install missing requirements, at the versions of constraints.txt."""
        have = self._stamped() if self.python.exists() else set()
        needed = missing(requirements, have)
        if not needed:
            return
        say(f'installing in {self._name}, which takes minutes: {" ".join(needed)}')
        if not self.python.exists():
            run(self._place, self._name, _interpreter(), '-m', 'venv', self.path)
        self._pip(needed)
        self.stamp.write_text('\n'.join(sorted(have | set(map(identity, needed)))))

    def _pip(self, requirements: Sequence[str]) -> None:
        words: list[str] = []
        for requirement in requirements:
            # A folder is under development: its code must be read from where it is edited.
            words += ['-e', requirement] if os.path.isdir(requirement) else [requirement]
        run(
            self._place,
            self._name,
            self.python,
            # Few of thousands of modules are ever imported; those are compiled then.
            *('-m', 'pip', 'install', '-q', '--no-compile', '-c', CONSTRAINTS),
            *words,
            PIP_DISABLE_PIP_VERSION_CHECK='1',
        )

    def _stamped(self) -> set[str]:
        return set(self.stamp.read_text().split('\n')) if self.stamp.exists() else set()


def missing(requirements: Iterable[str], have: Collection[str]) -> list[str]:
    """Return the requirements whose identities are not among those installed."""
    return sorted(text for text in set(requirements) if identity(text) not in have)


def versions() -> str:
    """Return a digest that changes with any version."""
    return hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()[:16]


def identity(requirement: str) -> str:
    """Return an identity that changes when the requirement must be installed again."""
    digest = hashlib.sha256(versions().encode())
    for name in ('setup.cfg', 'pyproject.toml'):
        metadata = pathlib.Path(requirement, name)
        if metadata.exists():
            digest.update(metadata.read_bytes())
    return f'{requirement} {digest.hexdigest()[:16]}'


def _interpreter() -> str:
    chosen = os.environ.get('KILN_CLOUD_PYTHON') or os.path.realpath(sys.executable)
    if shutil.which(chosen) is None:
        raise CloudError(f'KILN_CLOUD_PYTHON names {chosen!r}, which is not a program')
    return chosen


def install_plugins(place: Place, venv: Venv) -> None:
    """Install the plugins where Nova and Neutron look for theirs."""
    metadata = place.plugins / 'kiln_devcloud-1.dist-info'
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / 'METADATA').write_text('Metadata-Version: 2.1\nName: kiln-devcloud\nVersion: 1\n')
    (metadata / 'entry_points.txt').write_text(ENTRY_POINTS)
    shutil.copy(PLUGINS / 'kiln_ml2.py', place.plugins)
    # Nova loads a virt driver from its own package and from nowhere else.
    for virt in venv.path.glob('lib/python3*/site-packages/nova/virt'):
        shutil.copy(PLUGINS / 'kiln_virt.py', virt)
