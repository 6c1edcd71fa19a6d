"""Bare Debian roots: made by mmdebstrap from the host's own sources, and cached."""

import contextlib
import fcntl
import hashlib
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tools.command import alone

from .cases import USER
from .errors import FreshrootError
from .namespaces import run_apart
from .place import Place

#: Suites, and what people call them.
SUITES = {'bookworm': 'Debian 12', 'trixie': 'Debian 13'}
PACKAGES = ('git', 'make', 'python3', 'python3-venv', 'ca-certificates')
_USERADD = f'chroot "$1" useradd --create-home --shell /bin/bash {USER}'
_LINES = 15
#: Options of apt without which some hosts reach no mirror.
_APT_OPTIONS = ('Acquire::http', 'Acquire::https', 'Acquire::Check-')
_SUFFIXES = ('', '-updates', '-security')
_ONE_LINE = re.compile(r'deb\s+(?:\[([^]]*)]\s+)?(\S+)\s+(\S+)\s+(.+)')


def digest(suite: str, packages: Iterable[str] = PACKAGES) -> str:
    """Return a digest that changes when a root must be made again."""
    words = [suite, *sorted(packages), _USERADD]
    return hashlib.sha256('\n'.join(words).encode()).hexdigest()[:12]


@contextlib.contextmanager
def cached(
    place: Place, suite: str, say: Callable[[str], None], packages: Sequence[str] = PACKAGES
) -> Iterator[pathlib.Path]:
    """Hold the read-only root of a suite with packages; make it if it does not exist."""
    folder = place.roots / f'{suite}-{digest(suite, packages)}'
    root = folder / 'root'
    if root.exists():
        say(f'{SUITES[suite]}: its root is in the cache')
    else:
        with alone(folder):
            # Another process may have made it during the wait for the lock.
            if not root.exists():
                say(f'{SUITES[suite]}: making its root with mmdebstrap')
                make(suite, root, packages)
                say(f'{SUITES[suite]}: made')
    with (folder / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not root.exists():
            raise FreshrootError(f'{root} was removed by another command')
        yield root


def clean(place: Place) -> None:
    """Remove all roots and the remains of killed runs; refuse while a run uses one."""
    with alone(place.home):
        place.sweep()
        for folder in place.roots.glob('*'):
            with (folder / 'lock').open('w') as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise FreshrootError(f'{folder.name} is in use; try again later') from error
                shutil.rmtree(folder)


def make(suite: str, root: pathlib.Path, packages: Sequence[str] = PACKAGES) -> None:
    """Make a root; it appears under its name only when it is complete."""
    if shutil.which('mmdebstrap') is None:
        raise FreshrootError('mmdebstrap is missing: apt-get install mmdebstrap')
    part = root.with_name('part')
    # An incomplete root of a killed process; its mounts went with the process.
    shutil.rmtree(part, ignore_errors=True)
    if run_apart(lambda: _mmdebstrap(suite, part, packages)):
        raise FreshrootError(f'mmdebstrap cannot make {suite}')
    part.rename(root)


def _mmdebstrap(suite: str, root: pathlib.Path, packages: Sequence[str]) -> int:
    lines = translated(host_sources(), host_suite(), suite)
    command = [
        'mmdebstrap',
        '--mode=root',
        '--variant=minbase',
        f'--include={",".join(packages)}',
        f'--customize-hook={_USERADD}',
        *(f'--aptopt={option}' for option in apt_options()),
        suite,
        str(root),
    ]
    done = subprocess.run(
        # Without sources of our own it takes Debian's usual mirror.
        [*command, '-'] if lines else command,
        input='\n'.join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.splitlines()[-_LINES:]
        raise FreshrootError('\n'.join([f'{shlex.join(command)}:', *last]))
    return 0


def host_suite(release: pathlib.Path = pathlib.Path('/etc/os-release')) -> str:
    """Return the suite of this machine; empty if unknown."""
    found = re.search(r'^VERSION_CODENAME=(\w+)', release.read_text(), re.MULTILINE)
    return found[1] if found else ''


def host_sources(apt: pathlib.Path = pathlib.Path('/etc/apt')) -> list[str]:
    """Return the sources of this machine, one line each."""
    found = []
    for path in sorted([apt / 'sources.list', *apt.glob('sources.list.d/*')]):
        if path.suffix == '.sources':
            found += [line for text in _stanzas(path) for line in one_line_each(text)]
        elif path.suffix == '.list' and path.exists():
            found += [line.strip() for line in path.read_text().splitlines()]
    return found


def _stanzas(path: pathlib.Path) -> list[str]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith('#')]
    return re.split(r'\n\s*\n', '\n'.join(lines))


def one_line_each(stanza: str) -> list[str]:
    """Return a stanza of a .sources file as lines of a sources.list."""
    fields: Mapping[str, str] = {
        name.lower(): ' '.join(text.split())
        for name, text in re.findall(r'^([\w-]+):((?:.*)(?:\n[ \t].*)*)', stanza, re.MULTILINE)
    }
    if 'deb' not in fields.get('types', '').split() or fields.get('enabled') == 'no':
        return []
    key = fields.get('signed-by', '')
    # A key can be in the file itself; Debian's own keys are known without it.
    option = f'[signed-by={key}] ' if key.startswith('/') else ''
    return [
        f'deb {option}{uri} {suite} {fields.get("components", "")}'
        for uri in fields.get('uris', '').split()
        for suite in fields.get('suites', '').split()
    ]


def translated(lines: Iterable[str], host: str, suite: str) -> list[str]:
    """Return the sources of Debian itself, for another suite."""
    found = []
    for line in lines:
        if not (match := _ONE_LINE.match(line)):
            continue
        options, uri, name, components = match.groups()
        # Third-party repositories might not have the other suite.
        if host and 'main' in components.split() and name in {host + one for one in _SUFFIXES}:
            option = f'[{options}] ' if options else ''
            found.append(f'deb {option}{uri} {suite}{name[len(host) :]} main')
    return found


def apt_options() -> list[str]:
    """Return the host's settings of proxies and of the age of an archive."""
    done = subprocess.run(['apt-config', 'dump'], capture_output=True, text=True, check=False)
    return [
        line
        for line in done.stdout.splitlines()
        if line.startswith(_APT_OPTIONS) and not line.endswith('"";')
    ]
