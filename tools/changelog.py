"""Generator of CHANGELOG.rst from the release notes.

Needs no history: notes of a release are in ``releasenotes/<version>/``, and those of the
next one in ``releasenotes/notes/``, where ``reno new`` puts them. With ``--check`` nothing is
written, and an outdated file is an error.
"""

import configparser
import pathlib
import sys
import textwrap

import yaml

ROOT = pathlib.Path(__file__).parents[1]
# As reno has them, in its order; each note has one or more.
SECTIONS = {
    'features': 'New features',
    'issues': 'Known issues',
    'upgrade': 'Upgrade notes',
    'deprecations': 'Deprecations',
    'critical': 'Critical fixes',
    'security': 'Security',
    'fixes': 'Fixes',
    'other': 'Other notes',
}
HEAD = """\
.. Written by "make changelog" from releasenotes/; do not edit.

Changes
=======
"""


class NoteError(Exception):
    """A note cannot be used as it is."""


def read_note(path: pathlib.Path) -> dict[str, str | list[str]]:
    """Return the sections of a note."""
    try:
        note = yaml.safe_load(path.read_text(encoding='utf-8'))
    except yaml.YAMLError as exc:
        raise NoteError(f'{path}: {exc}') from exc
    if not isinstance(note, dict) or not note:
        raise NoteError(f'{path}: a note is a mapping of sections')
    for section, entries in note.items():
        if section == 'prelude':
            if not isinstance(entries, str):
                raise NoteError(f'{path}: the prelude is a text')
            continue
        if section not in SECTIONS:
            raise NoteError(f'{path}: no section is called {section!r}; use {", ".join(SECTIONS)}')
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise NoteError(f'{path}: {section} is a list of texts')
    return note


def release(title: str, folder: pathlib.Path) -> str:
    """Return the part about one release; empty if it has no note."""
    notes = [read_note(path) for path in sorted(folder.glob('*.yaml'))]
    if not notes:
        return ''
    parts = [f'{title}\n{"-" * len(title)}']
    parts += [textwrap.fill(note['prelude'], 88) for note in notes if 'prelude' in note]
    for section, heading in SECTIONS.items():
        entries = [entry for note in notes for entry in note.get(section, ())]
        if entries:
            parts.append(f'{heading}\n{"~" * len(heading)}')
            parts += ['* ' + textwrap.indent(entry.strip(), '  ')[2:] for entry in entries]
    return '\n\n'.join(parts)


def changelog(root: pathlib.Path) -> str:
    """Return the whole file, the newest release first."""
    metadata = configparser.ConfigParser()
    metadata.read(root / 'setup.cfg', encoding='utf-8')
    coming = metadata['metadata']['version'].partition('.dev')[0]
    notes = root / 'releasenotes'
    past = sorted(
        (folder for folder in notes.iterdir() if folder.name[:1].isdigit()),
        key=lambda folder: [int(part) for part in folder.name.split('.')],
        reverse=True,
    )
    parts = [release(f'{coming} (not released yet)', notes / 'notes')]
    parts += [release(folder.name, folder) for folder in past]
    return HEAD + ''.join(f'\n{part}\n' for part in parts if part)


def main(args: list[str]) -> str | int:
    """Write or check the file; return the exit status."""
    page = ROOT / 'CHANGELOG.rst'
    try:
        text = changelog(ROOT)
    except NoteError as exc:
        return str(exc)
    if '--check' not in args:
        page.write_text(text, encoding='utf-8')
    elif not page.exists() or page.read_text(encoding='utf-8') != text:
        return 'CHANGELOG.rst is not what the notes say: run make changelog'
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
