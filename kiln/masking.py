"""Masks credentials in texts that come from backends and configurations.

Part of :mod:`kiln.exceptions`, where callers import it from.
"""

from __future__ import annotations

import re

_SECRETS = (
    re.compile(r'(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)', re.DOTALL),
    # A password may hold an @ of its own; a user may have no name.
    re.compile(r'(://[^/\s:@]*:)[^\s/]+(@)'),
    re.compile(
        r'(\b(?:bearer|authorization["\']?\s*[:=]\s*["\']?basic)\s+)[\w.~+/=-]+()', re.IGNORECASE
    ),
    re.compile(
        # A sentence may follow "credentials: ", which is none of them.
        r'((?:password|passwd|secret|token|api[_-]?key|private[_-]?key'
        r'|credential(?!s: (?-i:[A-Z][a-z]+ [a-z]+ [a-z]+)))\w*'
        r'["\']?\s*[:=]\s*["\']?)[^"\'\s,;&}]+()',
        re.IGNORECASE,
    ),
)

_SIGNS = ('pass', 'secret', 'token', 'key', 'credential', 'bearer', 'authorization', '://')


def redact(text: str) -> str:
    """Mask what looks like a credential in a text from a backend."""
    # Most texts have none of it, and errors are made on the path of refusals.
    lowered = text.lower()
    for sign in _SIGNS:
        if sign in lowered:
            break
    else:
        return text
    for pattern in _SECRETS:
        text = pattern.sub(r'\1***\2', text)
    return text
