"""Skeletons of compute and cluster drivers, and forks of cluster drivers."""

from __future__ import annotations

import enum
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from kiln.cli.driver.scaffold.filling import check_free, check_name, fill
from kiln.cluster_drivers.records import VERSION
from kiln.exceptions import InvalidRequest
from kiln.models import AmphoraType

_KINDS = {
    AmphoraType.VM: 'virtual machines',
    AmphoraType.CONTAINER: 'containers',
    AmphoraType.BARE_METAL: 'bare metal machines',
    AmphoraType.HW_LOAD_BALANCER: 'hardware load balancers',
}
_HINTS = {
    AmphoraType.VM: 'Return once the machine has an id; kiln watches it boot.',
    AmphoraType.CONTAINER: 'A container that was created but not started is an amphora too.',
    AmphoraType.BARE_METAL: 'Machines are claimed, not created: claim and tag in one step.',
    AmphoraType.HW_LOAD_BALANCER: 'Claim an appliance, or a partition of one, in one step.',
}
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


class Base(enum.StrEnum):
    """What builds the clusters of a new cluster driver."""

    #: kiln's engine, from templates.
    NODES = 'nodes'
    #: A program of the driver.
    COMMAND = 'command'


def new_compute_driver(name: str, amphora_type: str, target: Path) -> list[Path]:
    """Write the package ``kiln-driver-NAME`` into a folder; return its files.

    It installs and its tests pass unchanged. Nothing is ever overwritten.

    :raises InvalidRequest: the name is invalid, or the package exists.
    """
    words = _words(check_name(name), AmphoraType(amphora_type))
    return fill('compute', words, target / words['dist'])


def _words(name: str, kind: AmphoraType) -> Mapping[str, str]:
    parts = [part.capitalize() for part in name.split('_')]
    dist = _dist(name)
    return {
        'name': name,
        'dist': dist,
        'rule': '=' * len(dist),
        'module': f'kiln_{name}',
        'cls': ''.join(parts),
        'title': ' '.join(parts),
        'member': kind.name,
        'kinds': _KINDS[kind],
        'hint': _HINTS[kind],
    }


def new_cluster_driver(
    name: str, form: str, target: Path, *, base: str = Base.NODES
) -> list[Path]:
    """Write a driver into a folder: the directory NAME, or the package ``kiln-driver-NAME``.

    It works and its tests pass unchanged. Return its files; nothing is ever overwritten.

    :raises InvalidRequest: the name is invalid, or the target exists.
    """
    check_name(name)
    dist = _dist(name)
    words = {
        'name': name,
        'module': name,
        'coe': re.sub(r'_v\d+$', '', name).replace('_', '-'),
        'rule': '=' * len(name),
        'dist': dist,
        'drule': '=' * len(dist),
    }
    if base == Base.COMMAND:
        if form != Form.DIRECTORY:
            raise InvalidRequest(
                f'Cannot write {name} as {form}: '
                f'a driver whose engine is a program is a directory.'
            )
        return fill('cluster/command', words, target / name)
    return fill(f'cluster/{Form(form)}', words, target / (dist if form == Form.PACKAGE else name))


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


def _dist(name: str) -> str:
    return f'kiln-driver-{name.replace("_", "-")}'


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob('*') if path.is_file())
