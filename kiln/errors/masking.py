"""Masking of credentials in texts from backends and configurations.

Part of :mod:`kiln.exceptions`, where callers import it from.
"""

from __future__ import annotations

import re

_SECRETS = (
    re.compile(r'(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)', re.DOTALL),
    # A password can contain an @; a user name can be empty.
    re.compile(r'(://[^/\s:@]*:)[^\s/]+(@)'),
    re.compile(
        r'(\b(?:bearer|authorization["\']?\s*[:=]\s*["\']?basic)\s+)[\w.~+/=-]+()', re.IGNORECASE
    ),
    re.compile(
        # A sentence that follows "credentials: " is not a credential.
        r'((?:password|passwd|secret|token|api[_-]?key|private[_-]?key'
        r'|credential(?!s: (?-i:[A-Z][a-z]+ [a-z]+ [a-z]+)))\w*'
        r'["\']?\s*[:=]\s*["\']?)[^"\'\s,;&}]+()',
        re.IGNORECASE,
    ),
)

_SIGNS = ('pass', 'secret', 'token', 'key', 'credential', 'bearer', 'authorization', '://')


def redact(text: str) -> str:
    """Mask anything that looks like a credential in a text."""
    # Most texts contain no credentials, and errors are created thousands of times.
    lowered = text.lower()
    for sign in _SIGNS:
        if sign in lowered:
            break
    else:
        return text
    for pattern in _SECRETS:
        text = pattern.sub(r'\1***\2', text)
    return text
