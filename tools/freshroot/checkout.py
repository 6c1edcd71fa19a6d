"""The checkout that a case meets: HEAD, as a clone or as a plain tree."""

import os
import pathlib
import pwd
import subprocess
import tempfile

from .cases import Case
from .errors import FreshrootError


def git(repository: pathlib.Path, *words: str | pathlib.Path) -> str:
    """Run git on the repository, even if another user owns it, and return its output."""
    with tempfile.NamedTemporaryFile('w', suffix='.gitconfig') as configuration:
        # An option or variable would not reach the other end of a clone.
        configuration.write('[safe]\n\tdirectory = *\n')
        configuration.flush()
        done = subprocess.run(
            ['git', *words],
            cwd=repository,
            env={**os.environ, 'GIT_CONFIG_GLOBAL': configuration.name},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise FreshrootError(f'git {words[0]} in {repository}: {done.stderr.strip()}')
    return done.stdout


def changed_files(repository: pathlib.Path) -> int:
    """Return how many files differ from HEAD, or are not in git."""
    return len(git(repository, 'status', '--porcelain').splitlines())


def lay(repository: pathlib.Path, case: Case, root: pathlib.Path) -> None:
    """Put HEAD into a root, owned by the case's owner."""
    folder = root / case.folder.lstrip('/')
    if case.git:
        git(repository, 'clone', '--quiet', '--no-hardlinks', repository, folder)
    else:
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as scratch:
            archive = pathlib.Path(scratch, 'kiln.tar')
            git(repository, 'archive', f'--output={archive}', 'HEAD')
            subprocess.run(['tar', '-xf', archive, '-C', folder], check=True)
    _give(folder, *ids(root, case.owner))


def ids(root: pathlib.Path, name: str) -> tuple[int, int]:
    """Return the numbers of a user of a root, and of the group."""
    for line in (root / 'etc/passwd').read_text().splitlines():
        user = pwd.struct_passwd(line.split(':'))
        if user.pw_name == name:
            return int(user.pw_uid), int(user.pw_gid)
    raise FreshrootError(f'{root} has no user {name!r}')


def _give(folder: pathlib.Path, uid: int, gid: int) -> None:
    os.lchown(folder, uid, gid)
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            os.lchown(os.path.join(place, name), uid, gid)
