"""Secrets that this process has read: whatever leaves it has none of them, however it is encoded.

A backend can quote them in ways that no pattern foresees.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterator

MASK = '***'
#: Shorter ones occur in ordinary words.
SHORTEST = 6
#: The last that were noted; each text is searched for all of them.
MOST = 1000
#: Longer ones, such as whole files, are known by their beginning.
LONGEST = 1024


class KnownSecrets:
    """Secrets, and their encodings; can be used by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The encodings of each secret.
        self._noted: dict[str, frozenset[str]] = {}
        #: The encodings by their beginning, so that a text is searched once for all of them.
        self._beginning: dict[str, tuple[str, ...]] = {}

    def note(self, value: str) -> None:
        """Remember a secret."""
        value = value[:LONGEST]
        if len(value) < SHORTEST or value in self._noted:
            return
        with self._lock:
            self._noted[value] = forms = frozenset(encodings(value))
            for form in forms:
                key = form[:SHORTEST]
                self._beginning[key] = (*self._beginning.get(key, ()), form)
            while len(self._noted) > MOST:
                for form in self._noted.pop(next(iter(self._noted))):
                    key = form[:SHORTEST]
                    left = list(self._beginning[key])
                    left.remove(form)
                    self._beginning[key] = tuple(left)
                    if not left:
                        del self._beginning[key]

    def note_url(self, url: str) -> None:
        """Remember the password in a URL, if there is one."""
        if '@' in url:
            password = urllib.parse.urlsplit(url).password
            if password:
                self.note(password)
                self.note(urllib.parse.unquote(password))

    def masked(self, text: str) -> str:
        """Return a text without the secrets."""
        beginning = self._beginning
        if not beginning:
            return text
        found = {
            form
            for at in range(len(text) - SHORTEST + 1)
            for form in beginning.get(text[at : at + SHORTEST], ())
            if text.startswith(form, at)
        }
        # The longest first: one can be a part of another.
        for form in sorted(found, key=len, reverse=True):
            text = text.replace(form, MASK)
        return text


def encodings(value: str) -> Iterator[str]:
    """Yield a secret as it is, and as parts of URLs, of JSON, of Python, in base64 and in hex."""
    content = value.encode('utf-8', 'surrogateescape')
    yield value
    yield urllib.parse.quote(value, safe='', errors='surrogateescape')
    yield urllib.parse.quote_plus(value, errors='surrogateescape')
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield repr(content)[2:-1]
    yield from (content.hex(), content.hex().upper())
    # The letters at its ends depend on what is before and behind it, such as a user's name.
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + content).decode()
        whole = encoded[-(-before * 8 // 6) : (before + len(content)) * 8 // 6]
        yield whole
        yield whole.replace('+', '-').replace('/', '_')


#: Those of this process.
KNOWN_SECRETS = KnownSecrets()
