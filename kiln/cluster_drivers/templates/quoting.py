"""Check that each filter in a template is proven to quote at its position.

Each filter is safe in its own language, as a separate word. In quotes, in a comment or in
another language its quotes would be plain text, and a value could break out. That is a
mistake in the template, found before any value is known. A filter is accepted only where a
scanner follows the file up to there; ``{{ name }}`` and ``| base64`` need no place.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import PurePath

from kiln.cluster_drivers.templates.language import Placeholder, TextTemplate
from kiln.cluster_drivers.templates.literal_places import python_refusals, yaml_refusals
from kiln.cluster_drivers.templates.shell_places import BARE, QUOTED, shell_refusals
from kiln.clusters.exceptions import Problem

# Shells that read the scanner's part of the grammar alike, with options that change no word.
_SHELL = re.compile(
    r'#![ \t]*(?:\S*/env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?'
    r'(?:busybox[ \t]+)?(?:sh|dash|bash|ash)(?:[ \t]+-[efulvx]+)?[ \t]*'
)
_PYTHON = re.compile(
    r'#![ \t]*(?:\S*/env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?python3?(?:\.\d+)?(?:[ \t].*)?'
)
_FILLED_AGAIN = 'cloud-init fills in this file again: use | base64'
_UNKNOWN = 'kiln does not know the quotes of this interpreter: use | base64, or a script for sh'
_MEND = 'assign it to a variable first, on a line of its own near the top: NAME={{ ... | shell }}'
_NOT_CHECKED = (
    'kiln does not check places in this file, which is neither YAML, JSON nor a script: its '
    'author must make sure that the program that reads it takes these quotes'
)


def misplaced(template: TextTemplate, *, is_script: bool = False) -> Iterator[Problem]:
    """Yield a problem for each filter that is not proven to quote at its position.

    :param is_script: True for a file that is run. If its first line names no interpreter, a
        shell runs it.
    """
    match _language(template, is_script):
        case 'yaml':
            yield from _in_yaml(template)
        case 'shell':
            yield from _in_shell(template)
        case 'python':
            yield from _in_python(template)
        case 'filled again':
            yield from _refused(template, ('json', 'shell'), _FILLED_AGAIN)
        case 'unknown':
            yield from _refused(template, ('json', 'shell'), _UNKNOWN)


def unchecked(template: TextTemplate, *, is_script: bool = False) -> Problem | None:
    """Return that no place in a template with filters is checked; None if all are."""
    for one in template.placeholders:
        if one.filter in ('json', 'shell') and not _language(template, is_script):
            return template.problem(one.start, _NOT_CHECKED)
    return None


def _language(template: TextTemplate, is_script: bool) -> str:
    """Return the language of a file, as the program that runs or reads it knows it."""
    suffix = PurePath(template.file).suffix
    start, line = template.text.lstrip()[:40].lower(), template.text.partition('\n')[0]
    if start.startswith('## template:'):
        return 'filled again'
    if start.startswith('#cloud-boothook'):
        is_script, line = True, template.text.lstrip().partition('\n')[2].partition('\n')[0]
    if suffix in ('.yaml', '.yml', '.json') or start.startswith('#cloud-config'):
        return 'yaml'
    if line.startswith('#!'):
        known = 'shell' if _SHELL.fullmatch(line) else 'python' if _PYTHON.fullmatch(line) else ''
        return known or 'unknown'
    return 'shell' if is_script or suffix in ('.sh', '.bash') else ''


def _filled(template: TextTemplate, wanted: str, value: str) -> str:
    """Return the text with a filler for each value."""
    parts, at = [], 0
    for one in template.placeholders:
        filler = value if one.filter == wanted else BARE if one.name else '{{'
        parts += [template.text[at : one.start], filler]
        at = one.end
    return ''.join([*parts, template.text[at:]])


def _word(template: TextTemplate) -> str:
    """Return a word that is not in a template, to stand for values."""
    word = 'value'
    while word in template.text:
        word += '_'
    return word


def _of(template: TextTemplate, *filters: str) -> list[Placeholder]:
    return [one for one in template.placeholders if one.filter in filters]


def _refused(template: TextTemplate, refused: tuple[str, ...], why: str) -> Iterator[Problem]:
    for one in _of(template, *refused):
        yield template.problem(one.start, why)


def _in_shell(template: TextTemplate) -> Iterator[Problem]:
    yield from _refused(
        template, ('json',), 'a shell expands text within the quotes of JSON: use | shell'
    )
    refusals = shell_refusals(_filled(template, 'shell', QUOTED))
    for one, why in zip(_of(template, 'shell'), refusals, strict=True):
        if why:
            message = f'{one.name} | shell is not proven to quote here, as {why}: {_MEND}'
            yield template.problem(one.start, message)


def _in_python(template: TextTemplate) -> Iterator[Problem]:
    yield from _refused(template, ('shell',), 'this is not a shell script: use | json or | base64')
    value = _word(template)
    refusals = python_refusals(_filled(template, 'json', value), value)
    for one, why in zip(_of(template, 'json'), refusals, strict=True):
        if why:
            message = f'{one.name} | json is not proven to quote here, as {why}: use NAME = ...'
            yield template.problem(one.start, message)


def _in_yaml(template: TextTemplate) -> Iterator[Problem]:
    import yaml

    yield from _refused(
        template,
        ('shell',),
        'this is not a shell script: use | json, or put the script in its own file',
    )
    value = _word(template)
    try:
        refusals = yaml_refusals(_filled(template, 'json', value), value)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        wrong = template.problem(0, f'this is not YAML: {exc.problem}')
        yield dataclasses.replace(wrong, line=mark.line + 1 if mark else 1)
        return
    except yaml.YAMLError:
        yield template.problem(0, 'this is not YAML: it has a character that cannot be printed')
        return
    for one, why in zip(_of(template, 'json'), refusals, strict=True):
        if why:
            yield template.problem(one.start, f'{one.name} | json adds its own quotes: {why}')
