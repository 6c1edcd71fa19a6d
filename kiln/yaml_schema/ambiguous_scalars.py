"""YAML scalars: values on which YAML 1.1 and 1.2 agree; others are ambiguous.

Editors read YAML 1.2, most programs 1.1. Scalars such as ``yes`` and ``010`` have different
values in the two versions, so kiln does not guess which value is meant.
"""

from __future__ import annotations

import math
import re

from kiln.yaml_schema.nodes import Doubtful, Scalar

_WORDS: dict[str, Scalar] = {
    '': None, '~': None, 'null': None, 'Null': None, 'NULL': None,
    'true': True, 'True': True, 'TRUE': True,
    'false': False, 'False': False, 'FALSE': False,
}  # fmt: skip
_DOUBTFUL_WORDS = {
    **dict.fromkeys(('yes', 'Yes', 'YES', 'on', 'On', 'ON'), 'true'),
    **dict.fromkeys(('no', 'No', 'NO', 'off', 'Off', 'OFF'), 'false'),
}

_WHOLE = re.compile(r'[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+')
_REAL = re.compile(r'[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+][0-9]+)?')
_DOUBTS = tuple(
    (re.compile(pattern), why)
    for pattern, why in (
        (r'[-+]?0o?[0-9]+', 'is an octal number for some YAML parsers'),
        (r'[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)', 'is not a finite number'),
        (
            r'[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?',
            'is a base-60 number for some YAML parsers',
        ),
        (
            r'[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+'
            r'|[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|0[bx][0-9a-fA-F_]+)',
            'is a number for some YAML parsers and text for others',
        ),
    )
)

#: Digits that every JSON parser keeps.
_MOST_DIGITS = 15


def resolved(text: str) -> Scalar:
    """Return the value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text in _DOUBTFUL_WORDS:
        truth = _DOUBTFUL_WORDS[text]
        return Doubtful(f'is {truth} for some YAML parsers and text for others')
    return _number(text) if text[0] in '+-.0123456789' else text


def _number(text: str) -> Scalar:
    if _WHOLE.fullmatch(text):
        if len(text.lstrip('+-')) > _MOST_DIGITS:
            return Doubtful('has too many digits for a number')
        return int(text, 16) if text.startswith('0x') else int(text)
    if _REAL.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else Doubtful('is too large a number')
    return next((Doubtful(why) for doubt, why in _DOUBTS if doubt.fullmatch(text)), text)
