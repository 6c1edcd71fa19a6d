"""File of known survivors: mutants that the kit lets pass, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kiln.clusters.exceptions import InvalidCluster, Problem, WithProblems
from kiln.testing.mutants.verdicts import Survivor
from kiln.yaml_schema.container_checks import ListOf
from kiln.yaml_schema.mapping_checks import Field, Found, Record
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.reader import documents
from kiln.yaml_schema.value_checks import Paragraphs, Text


class InvalidSurvivors(WithProblems):
    """A file of survivors has mistakes; each is listed."""

    code = 'invalid_survivors'


def read_survivors(path: Path) -> Mapping[tuple[str, str, str], Survivor]:
    """Return the survivors in a file, by the key of the mutant.

    :raises InvalidSurvivors: the file cannot be read, or has mistakes.
    """
    mistakes = Mistakes(str(path))
    try:
        found = list(documents(path.read_bytes(), mistakes))
    except OSError as exc:
        problem = Problem(message=f'it cannot be read: {exc.strerror}', file=str(path), line=1)
        raise InvalidSurvivors([problem]) from exc
    read = [_SURVIVORS.read(node, mistakes) for node in found]
    try:
        mistakes.raise_any()
    except InvalidCluster as exc:
        raise InvalidSurvivors(exc.problems) from None
    return {one.key: one for group in read if isinstance(group, tuple) for one in group}


def _settle(found: Found) -> None:
    if found.given('equivalent') == found.given('missing'):
        found.mistakes.add(
            found.node,
            'write one reason: equivalent, why no caller can see the difference; '
            'or missing, what the kit does not test',
        )


_KEY = ('place', 'operator', 'change')
_SURVIVORS = ListOf(
    Record(
        Survivor,
        'a survivor',
        *(
            Field(name=name, kind=kind, help=text, required=name in _KEY)
            for name, kind, text in (
                ('place', Text('MODULE:FUNCTION'), 'The function that was changed.'),
                ('operator', Text('the name of an operator'), 'The mistake.'),
                ('change', Text(longest=1000), 'What was changed, as reported.'),
                ('equivalent', Paragraphs(), 'Why no caller can see the difference.'),
                ('missing', Paragraphs(), 'What the kit does not test so far.'),
            )
        ),
        settle=_settle,
        file='survivors',
    ),
    'a list of survivors',
)
