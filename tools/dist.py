"""Wheel and source archive of the last commit, the same bytes each time.

python -m tools.dist FOLDER

Nothing depends on the folder, the time, the user or the packages of the builder: what is
committed is built with the one setuptools of ``tools/building.txt``. All files have the time of
the commit. Another version of Python or zlib can compress differently.
"""

import gzip
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
# Without site packages, whose plug-ins of setuptools would change what is built.
BUILD = [sys.executable, '-S', '-c']
PROGRAM = 'import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])'


class DistError(Exception):
    """The archives cannot be built."""


def run(*arguments: str, cwd: pathlib.Path, env: dict[str, str] | None = None) -> bytes:
    """Return what a program prints.

    :raises DistError: the program failed; the message is its output.
    """
    done = subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors='replace')
        raise DistError(f'{said}Cannot build: {arguments[0]} failed.')
    return done.stdout


def unpack(archive: bytes, folder: pathlib.Path) -> None:
    """Extract an archive, with the modes that any umask leaves the same."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, (plain(member, int(member.mtime)) for member in tar), filter='data')


def plain(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    """Return a member without what depends on its builder."""
    member.uid = member.gid = 0
    member.uname = member.gname = ''
    member.mtime = epoch
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.pax_headers = {}
    return member


def same(archive: pathlib.Path, epoch: int) -> None:
    """Write a source archive again, in order and with one time."""
    with tarfile.open(archive) as tar:
        held = sorted(((one, tar.extractfile(one)) for one in tar), key=lambda one: one[0].name)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode='w', format=tarfile.GNU_FORMAT) as ordered:
            for member, content in held:
                ordered.addfile(plain(member, epoch), content)
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch))


def build(source: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """Build the source archive from the last commit, and from that the wheel."""
    output = work / 'built'
    epoch = run('git', 'log', '-1', '--format=%ct', cwd=source).decode().strip()
    tree = work / 'tree'
    unpack(run('git', 'archive', '--format=tar', 'HEAD', cwd=source), tree)
    backend = work / 'backend'
    run(
        sys.executable, '-m', 'pip', 'install', '--disable-pip-version-check', '--no-deps',
        '--require-hashes', '--target', str(backend), '-r', str(tree / 'tools' / 'building.txt'),
        cwd=work,
    )  # fmt: skip
    env = {
        'PATH': os.defpath, 'LC_ALL': 'C.UTF-8', 'TMPDIR': str(work),
        'PYTHONPATH': str(backend), 'SOURCE_DATE_EPOCH': epoch,
    }  # fmt: skip
    run(*BUILD, PROGRAM.format('build_sdist'), str(output), cwd=tree, env=env)
    (archive,) = output.glob('*.tar.gz')
    same(archive, int(epoch))
    unpack(archive.read_bytes(), work / 'unpacked')
    (again,) = (work / 'unpacked').iterdir()
    run(*BUILD, PROGRAM.format('build_wheel'), str(output), cwd=again, env=env)
    return output


def main(arguments: list[str], source: pathlib.Path = ROOT) -> str | int:
    """Build both and put them into a folder; return the exit status."""
    output = pathlib.Path(arguments[0])
    output.mkdir(parents=True, exist_ok=True)
    umask = os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory() as work:
            for path in sorted(build(source, pathlib.Path(work)).iterdir()):
                print(shutil.copy(path, output))
    except DistError as exc:
        return str(exc)
    finally:
        os.umask(umask)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
