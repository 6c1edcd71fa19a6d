"""Host files and variables that pip and git need in a root."""

import configparser
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping

from . import kernel

_PREFIXES = ('PIP_', 'SSL_CERT_')
_NAMES = {
    *('http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'),
    *('requests_ca_bundle', 'curl_ca_bundle', 'git_ssl_cainfo'),
}
#: Variables about where to write or install, which only apply to the host.
_HOST_ONLY = {f'PIP_{name}' for name in ('CACHE_DIR', 'LOG', 'PREFIX', 'ROOT', 'SRC', 'TARGET')}
_INDEXES = ('index-url', 'extra-index-url')
_FOLDERS = (*_INDEXES, 'find-links')
_NAMED_FILES = ('constraint', 'cert', 'client-cert')
_FILES = ('/etc/resolv.conf', '/etc/hosts', '/etc/ssl/certs/ca-certificates.crt')
_SITE = ('/etc/pip.conf', '/etc/xdg/pip/pip.conf')
_OWN = ('.pip/pip.conf', '.config/pip/pip.conf')


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that control access to packages."""
    return {
        name: text
        for name, text in environ.items()
        if (name.startswith(_PREFIXES) or name.lower() in _NAMES) and name not in _HOST_ONLY
    }


def carry(environ: Mapping[str, str], root: pathlib.Path, home: str) -> None:
    """Bring files and local indexes into a root; ``home`` is the user's there."""
    given = environment(environ)
    ours = pathlib.Path(environ.get('HOME') or os.path.expanduser('~'))
    copies = {pathlib.Path(path): path for path in (*_FILES, *_SITE)}
    copies |= {ours / path: f'{home}/{path}' for path in _OWN}
    copies |= {pathlib.Path(text): text for text in given.values() if text.startswith('/')}
    configurations = _configurations(path for path in copies if path.is_file())
    copies |= {path: str(path) for path in local_files(given, configurations)}
    # First the folders: a bundle can be in one of them.
    for folder in {
        *(path for path in copies if path.is_dir()),
        *local_folders(given, configurations),
    }:
        _bind(folder, root)
    for source, target in copies.items():
        if source.is_file():
            _copy(source, root, target)


def local_folders(
    given: Mapping[str, str], configurations: Iterable[configparser.RawConfigParser]
) -> set[pathlib.Path]:
    """Return the folders of this machine that pip takes packages from."""
    found = set()
    for name, path in _paths(_FOLDERS, given, configurations):
        if path.is_dir():
            # The pages of an index usually point to files beside it.
            beside = name in _INDEXES and path.parent != path.parent.parent
            found.add(path.parent if beside else path)
    return found


def local_files(
    given: Mapping[str, str], configurations: Iterable[configparser.RawConfigParser]
) -> set[pathlib.Path]:
    """Return the files of this machine without which pip refuses to work."""
    return {path for _, path in _paths(_NAMED_FILES, given, configurations) if path.is_file()}


def _paths(
    names: Iterable[str],
    given: Mapping[str, str],
    configurations: Iterable[configparser.RawConfigParser],
) -> Iterator[tuple[str, pathlib.Path]]:
    for name in names:
        variable = given.get(f'PIP_{name.upper().replace("-", "_")}', '')
        written = (
            section.get(name, '')
            for configuration in configurations
            for section in configuration.values()
        )
        for word in ' '.join((variable, *written)).split():
            path = pathlib.Path(word.removeprefix('file://').rstrip('/'))
            if path.is_absolute():
                yield name, path


def _configurations(paths: Iterable[pathlib.Path]) -> list[configparser.RawConfigParser]:
    found = []
    for path in paths:
        if path.suffix not in ('.conf', '.ini', '.cfg'):
            continue
        one = configparser.RawConfigParser(strict=False)
        try:
            one.read(path)
        except configparser.Error:
            continue  # not INI (resolv.conf), or a broken pip.conf, which pip itself reports
        found.append(one)
    return found


def _bind(folder: pathlib.Path, root: pathlib.Path) -> None:
    target = _make_way(root, folder)
    target.mkdir(exist_ok=True)
    kernel.mount(folder, target, flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.mount('none', target, flags=kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY)


def _copy(source: pathlib.Path, root: pathlib.Path, place: str) -> None:
    target = _make_way(root, pathlib.Path(place))
    if target.parent.is_mount():
        return  # it came with its folder
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o644)


def _make_way(root: pathlib.Path, path: pathlib.Path) -> pathlib.Path:
    """Return the place of a path in a root; everybody there may go to it."""
    target = root / os.path.relpath(path, '/')
    for folder in reversed(target.relative_to(root).parents):
        (root / folder).mkdir(exist_ok=True)
    for folder in target.parents:
        if folder == root:
            break
        # The home of a root's root is closed, but the host's files can be there.
        if not (folder.is_mount() or folder.stat().st_mode & 0o005 == 0o005):
            folder.chmod(folder.stat().st_mode | 0o005)
    return target
