"""Skeletons of cluster drivers in three forms, and forks of existing ones."""

from __future__ import annotations

import enum
import re
import shutil
from pathlib import Path

from kiln.cli.driver.scaffold.filling import check_free, check_name, fill
from kiln.cluster_drivers.records import VERSION
from kiln.exceptions import InvalidRequest

_TEMPLATES = 'templates'
#: Patterns of a driver's name and version by file; the value is the second group.
_SAID = {
    'driver.yaml': {
        'name': r'^(name:\s*)([\'"]?[\w.-]+[\'"]?)',
        'version': r'^(version:\s*)([\'"]?[\w.]+[\'"]?)',
    },
    'version.py': {
        'name': r'^(driver\s*=\s*)([\'"][\w.-]+[\'"])',
        'version': r'^(version\s*=\s*)([\'"][\w.]+[\'"])',
    },
}


class Form(enum.StrEnum):
    """The form of a new cluster driver."""

    #: A directory with driver.yaml and templates, without Python.
    DIRECTORY = 'directory'
    #: A directory with driver.py.
    PYTHON = 'python'
    #: A Python package with an entry point and tests.
    PACKAGE = 'package'


def new_cluster_driver(name: str, form: str, target: Path) -> list[Path]:
    """Write a driver into a folder: the directory NAME, or the package ``kiln-driver-NAME``.

    It works and its tests pass unchanged. Return its files; nothing is ever overwritten.

    :raises InvalidRequest: the name or the form is invalid, or the target exists.
    """
    check_name(name)
    if form not in list(Form):
        raise InvalidRequest(
            f'Cannot write a cluster driver as {form!r}: choose one of {", ".join(Form)}.'
        )
    dist = f'kiln-driver-{name.replace("_", "-")}'
    words = {
        'name': name,
        'module': name,
        'coe': re.sub(r'_v\d+$', '', name).replace('_', '-'),
        'rule': '=' * len(name),
        'dist': dist,
        'drule': '=' * len(dist),
    }
    return fill(f'cluster/{form}', words, target / (dist if form == Form.PACKAGE else name))


def fork_cluster_driver(
    folder: Path, name: str, target: Path, *, version: str = '1.0.0'
) -> list[Path]:
    """Copy the folder of a driver under another name and version; return its files.

    :raises InvalidRequest: the name or version is invalid, the target exists, or the
        driver does not declare its name in a file that can be edited.
    """
    check_name(name)
    if not VERSION.fullmatch(version):
        raise InvalidRequest(f"Cannot give version {version!r}: write one like '1.0.0'.")
    root = target / name
    check_free(root)
    texts = {
        file: _said(folder / file, name, version) for file in _SAID if (folder / file).is_file()
    }
    if not texts:
        raise InvalidRequest(
            f'Cannot fork {folder}: it has neither a driver.yaml nor a version.py that declares '
            f'its name.'
        )
    shutil.copytree(folder, root, ignore=shutil.ignore_patterns('__pycache__', '*.pyc', '.*'))
    for file, text in texts.items():
        (root / file).write_text(text)
    return _files(root)


def fork_templates(folder: Path, name: str, target: Path) -> list[Path]:
    """Copy only the templates of a driver, as replacements; return the files.

    :raises InvalidRequest: the driver has no templates, or the target exists.
    """
    if not (folder / _TEMPLATES).is_dir():
        raise InvalidRequest(f'Cannot fork the templates of {folder}: it does not have any.')
    root = target / name
    check_free(root)
    shutil.copytree(folder / _TEMPLATES, root)
    return _files(root)


def _said(file: Path, name: str, version: str) -> str:
    text = file.read_text()
    for key, value in (('name', name), ('version', version)):
        quoted = f"'{value}'" if file.suffix == '.py' else value
        pattern = re.compile(_SAID[file.name][key], re.MULTILINE)
        if file.name == 'version.py' and not pattern.search(text):
            raise InvalidRequest(
                f'Cannot fork {file.parent}: {file.name} does not declare its {key}.'
            )
        text = pattern.sub(rf'\g<1>{quoted}', text, count=1)
    return text


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob('*') if path.is_file())
