"""Check that each filter in a template quotes correctly at its position.

Each filter is safe in its own language, as a separate word. In quotes, in a comment or in
another language its quotes would be plain text, and a value could break out. That is a
mistake in the template, found before any value is known. No library parses shell
scripts: shlex supports neither here-documents nor backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from kiln.cluster_drivers.templates.language import Placeholder, TextTemplate
from kiln.clusters.exceptions import Problem

_SHELL = re.compile(r'#! *\S*?(?:/env +)?(?:\S*/)?(?:ba|da|k|z|a)?sh\b')
# Parts of a script in which the shell does not split words. A here-document ends at the line
# of its word, unless a backslash joins that line to the one before; quotes can contain a
# command with its own quotes; an unclosed part extends to the end.
_APART = re.compile(
    r"""\\. | '[^']*(?:'|\Z) | `(?:\\.|[^`\\])*(?:`|\\?\Z)
    | "(?:\\.|\$\((?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^()"'\\])*\)|[^"\\])*(?:"|\\?\Z)
    | (?<![^\s;|&()])(?<![^\s;|&()]\\\n)\#[^\n]* | \$\(\([^\n'"`]*?\)\)
    | (?<!<)<<-?[ ]*(["'\\])?(\w++)\1?[^\n]*\n(?:.*?(?(1)|(?<!\\))\n)??\t*\2(?=\n|\Z)
    | (?<!<)<<-?[ ]*["'\\]?[A-Za-z_].*""",
    re.DOTALL | re.VERBOSE,
)


def misplaced(template: TextTemplate) -> Iterator[Problem]:
    """Yield a problem for each filter that would not quote at its position."""
    first = template.text.partition('\n')[0]
    if PurePath(template.file).suffix in ('.yaml', '.yml', '.json') or first == '#cloud-config':
        yield from _in_yaml(template)
    elif first.startswith('#!'):
        yield from (_in_shell if _SHELL.match(first) else _in_script)(template)


def _masked(template: TextTemplate) -> str:
    parts, at = [], 0
    for one in template.placeholders:
        parts += [template.text[at : one.start], 'x' * (one.end - one.start)]
        at = one.end
    return ''.join([*parts, template.text[at:]])


def _refused(template: TextTemplate, refused: str, why: str) -> Iterator[Problem]:
    for one in template.placeholders:
        if one.filter == refused:
            yield template.problem(one.start, why)


def _in_script(template: TextTemplate) -> Iterator[Problem]:
    return _refused(template, 'shell', 'this is not a shell script: use | json or | base64')


def _in_shell(template: TextTemplate) -> Iterator[Problem]:
    yield from _refused(
        template, 'json', 'a shell expands text within the quotes of JSON: use | shell'
    )
    apart = [found.span() for found in _APART.finditer(_masked(template))]
    for one in template.placeholders:
        if one.filter == 'shell' and any(start <= one.start < end for start, end in apart):
            yield template.problem(
                one.start,
                f'{one.name} | shell adds its own quotes, which do not work in quotes, in a '
                f'comment or in a here-document: assign it to a variable first',
            )


def _in_yaml(template: TextTemplate) -> Iterator[Problem]:
    import yaml

    yield from _refused(
        template,
        'shell',
        'this is not a shell script: use | json, or put the script in its own file',
    )
    try:
        spans = list(_spans(_masked(template)))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        yield template.problem(mark.index if mark else 0, f'this is not YAML: {exc.problem}')
        return
    except yaml.YAMLError:
        yield template.problem(0, 'this is not YAML: it has a character that cannot be printed')
        return
    for one in template.placeholders:
        if one.filter == 'json' and not _alone(one, spans):
            yield template.problem(
                one.start,
                f'{one.name} | json adds its own quotes: put nothing around it, neither '
                f'quotes nor text',
            )


def _spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each part, and True if it is a scalar without quotes."""
    import yaml

    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        assert event.start_mark is not None
        assert event.end_mark is not None
        is_plain = isinstance(event, yaml.ScalarEvent) and event.style is None
        yield event.start_mark.index, event.end_mark.index, is_plain


def _alone(one: Placeholder, spans: list[tuple[int, int, bool]]) -> bool:
    for start, end, is_plain in spans:
        if start <= one.start < end:
            return is_plain and (start, end) == (one.start, one.end)
    # In a comment: JSON is one line, and stays within the comment.
    return True
