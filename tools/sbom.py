"""Bill of materials of kiln, as CycloneDX: kiln itself, and what constraints.txt names.

python -m tools.sbom OUTPUT EXTRA...    # with the packages of tools/releasing.txt

Nothing depends on the time or the machine. The document is checked against the schema of
CycloneDX before it is written.
"""

import configparser
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
_LISTED = [
    *(sys.executable, '-m', 'cyclonedx_py', 'requirements'),
    *('--output-reproducible', 'constraints.txt'),
]


class SbomError(Exception):
    """The document cannot be made, or does not fit the schema."""


def canonical(name: str) -> str:
    """Return the name of a package as PyPI compares it."""
    return re.sub(r'[-_.]+', '-', name).lower()


def needed(package: configparser.ConfigParser, extras: Iterable[str]) -> set[str]:
    """Return the packages that kiln itself requires, with some extras."""
    texts = [package['options']['install_requires']]
    texts += [package['options.extras_require'][extra] for extra in extras]
    lines = [line for text in texts for line in text.split('\n')]
    found = (re.match(r'[A-Za-z0-9._-]+', line.strip()) for line in lines)
    return {canonical(one[0]) for one in found if one}


def with_kiln(
    document: dict[str, Any], package: configparser.ConfigParser, extras: Iterable[str]
) -> dict[str, Any]:
    """Return a document of packages with the one that they belong to."""
    about = package['metadata']
    purl = f'pkg:pypi/{about["name"]}@{about["version"]}'
    component = {
        'bom-ref': purl,
        'type': 'application',
        'name': about['name'],
        'version': about['version'],
        'description': about['description'],
        'licenses': [{'license': {'id': about['license'], 'acknowledgement': 'declared'}}],
        'purl': purl,
    }
    direct = needed(package, extras)
    refs = {canonical(one['name']): one['bom-ref'] for one in document['components']}
    if lacking := direct - refs.keys():
        raise SbomError(f'constraints.txt lacks {", ".join(sorted(lacking))}: make constraints')
    depends = {'ref': purl, 'dependsOn': sorted(refs[name] for name in direct)}
    return document | {
        'metadata': document['metadata'] | {'component': component},
        'dependencies': [depends, *document['dependencies']],
    }


def check(document: dict[str, Any]) -> None:
    """Compare a document with the schema of its version.

    :raises SbomError: it does not fit.
    """
    # Only the environment of the tools of a release has it.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    version = SchemaVersion.from_version(document['specVersion'])
    if wrong := JsonStrictValidator(version).validate_str(json.dumps(document)):
        raise SbomError(f'it does not fit the schema of CycloneDX: {wrong}')


def main(arguments: list[str]) -> str | int:
    """Write the document; return the exit status."""
    output, *extras = arguments
    package = configparser.ConfigParser()
    package.read(ROOT / 'setup.cfg', encoding='utf-8')
    done = subprocess.run(_LISTED, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return f'{done.stderr}Cannot make {output}: cyclonedx-py failed.'
    try:
        document = with_kiln(json.loads(done.stdout), package, extras)
        check(document)
    except SbomError as exc:
        return f'Cannot make {output}: {exc}.'
    path = pathlib.Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + '\n', encoding='utf-8')
    print(f'{output}: kiln-compute and {len(document["components"])} packages')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
