"""File of known survivors: mutants that the kit lets pass, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kiln.clusters.exceptions import WithProblems
from kiln.testing.mutants.verdicts import Survivor
from kiln.yaml_schema.container_checks import ListOf
from kiln.yaml_schema.mapping_checks import Field, Found, Record
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.reader import only_document
from kiln.yaml_schema.value_checks import Paragraphs, Text


class InvalidSurvivors(WithProblems):
    """A file of survivors has mistakes; each is listed."""

    code = 'invalid_survivors'
    remedy = 'Correct each entry that is named.'


def read_survivors(path: Path) -> Mapping[tuple[str, str, str], Survivor]:
    """Return the survivors in a file, by the key of the mutant.

    :raises InvalidSurvivors: the file cannot be read, or has mistakes.
    """
    mistakes = Mistakes(str(path))
    root = only_document(path, mistakes)
    found = () if root is None else _SURVIVORS.read(root, mistakes)
    mistakes.raise_any(InvalidSurvivors)
    return {one.key: one for one in found} if isinstance(found, tuple) else {}


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
