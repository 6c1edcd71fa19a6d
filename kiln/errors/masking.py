"""Masking of credentials in texts from backends and configurations.

Part of :mod:`kiln.exceptions`, where callers import it from. A backend chooses the text,
so each step reads it once: no pattern here can be made to run for long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kiln.errors.known import KNOWN_SECRETS
from kiln.errors.known import MASK as _MASK
from kiln.foreign.text import visible

#: A longer text is cut before it is searched; no error needs as much.
LONGEST = 32 * 1024
_MOST_TIMES = 4
#: Characters at the end of an error that are kept.
_END = 400

_Span = tuple[int, int]

#: Credentials that are known by their own form.
_WHOLE = (
    re.compile(r'-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END|\Z)', re.DOTALL),
    re.compile(
        r'\b(?:bearer|authorization["\']?\s*+[:=]\s*+["\']?(?:basic|digest|negotiate))\s++'
        r'([\w.~+/=-]++)',
        re.IGNORECASE,
    ),
    re.compile(r'SWMTKN-([\w-]++)'),
)
#: Passwords with an @ in them, and passwords with a slash as well.
_URLS = (
    re.compile(r'://[^/\s:@]*+:((?:[^\s/:]|:(?!//))++)'),
    re.compile(r'://[^/\s:@"\'<>]*+:([^\s"\'<>]++)'),
)
#: Words that name a credential, also as the beginning of a longer word.
_SIGN = re.compile(
    r'passw(?:or)?d|passphrase|pwd|adminpass|secret|token|cookie'
    r'|(?:api|auth|access|private)[_-]?key'
    # A sentence that follows "credentials: " is not a credential.
    r'|credential(?!s: (?-i:[A-Z][a-z]+ [a-z]+ [a-z]+))',
    re.IGNORECASE,
)
#: The longest part of a sign before a hyphen.
_BEFORE_HYPHEN = len('private')
_WORD_END = re.compile(r'\w*+')
_SEPARATOR = re.compile(r'\\*+["\']?\s*+[:=]\s*+')
_PLAIN = re.compile(r'[^"\'\s,;&}]++')
_OPENER = re.compile(r'(\\*+)(["\'])')
_PREFIXES = frozenset({'b', 'r', 'u', 'br', 'rb'})
#: Values in quotes, by whether the quotes are escaped.
_QUOTED = {
    (escaped, quote): re.compile(
        rf'[^{quote}\\]++' if escaped else rf'(?:[^{quote}\\]|\\.)++', re.DOTALL
    )
    for escaped in (False, True)
    for quote in ('"', "'")
}
_LINE = re.compile(r'[^\r\n]++')
_HEADER = re.compile(r'[^"\'\r\n]++')
_OPTION = re.compile(r'(?<!\S)--[\w-]{0,40}\Z')
_OPTION_VALUE = re.compile(r'\s++(?!(?:or|and|to|is|with|for|in|of|on|must|needs|has|was)\b)')

_SIGNS = (
    'pass', 'pwd', 'secret', 'token', 'key', 'credential', 'cookie', 'bearer', 'authorization',
    'swmtkn', '://',
)  # fmt: skip


def redact(text: str) -> str:
    """Mask all secrets that were read, and what looks like one; a very long text is cut."""
    text = KNOWN_SECRETS.masked(cut(text, LONGEST))
    # Most texts contain no credentials, and errors are created thousands of times.
    lowered = text.lower()
    for sign in _SIGNS:
        if sign in lowered:
            break
    else:
        return text
    # A mask can end what a URL or a quote began; the second time is nearly always the last.
    for _ in range(_MOST_TIMES):
        masked = _masked_once(text)
        if masked == text:
            break
        text = masked
    return text


def redact_all(text: str) -> str:
    """Do the same with a text of any length, of which nothing is cut."""
    if len(text) <= LONGEST:
        return redact(text)
    text = KNOWN_SECRETS.masked(text)
    return ''.join(redact(piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that are not cut, which end with lines if they can."""
    at = 0
    while at < len(text):
        end = at + LONGEST
        if end < len(text):
            end = text.rfind('\n', at, end) + 1 or end
        yield text[at:end]
        at = end


def _masked_once(text: str) -> str:
    kept: list[str] = []
    done = 0
    for begin, end in sorted(_credentials(text)):
        if begin > done or not kept:
            kept += text[done:begin], _MASK
        done = max(done, end)
    return ''.join([*kept, text[done:]]) if kept else text


def _credentials(text: str) -> Iterator[_Span]:
    """Yield the places of all credentials in a text; they can overlap."""
    for pattern in _WHOLE:
        for found in pattern.finditer(text):
            yield found.span(1)
    yield from _values(text)
    if '@' in text:
        for pattern in _URLS:
            for url in pattern.finditer(text):
                # The last @ ends the password.
                if password := url[1].rpartition('@')[0]:
                    yield url.start(1), url.start(1) + len(password)


def told(text: str, longest: int) -> str:
    """Return what an error says of a text: no credentials, nothing unseen, and not too much.

    A text that is too long loses its middle, as its end says what to do; only after masking, since
    the part that is cut out can be what tells that the rest is a credential.
    """
    shown = redact(visible(cut(text, LONGEST)))
    if len(shown) <= longest:
        return shown
    gap = f' [... {len(text)} characters ...] '
    end = min(_END, (longest - len(gap)) // 2)
    return f'{shown[: longest - len(gap) - end]}{gap}{shown[len(shown) - end :]}'


def cut(text: str, longest: int) -> str:
    """Return a text of at most that many characters, which shows that its end is missing."""
    if len(text) <= longest:
        return text
    end = f' [... {len(text)} characters]'
    return f'{text[: longest - len(end)]}{end}'


def _values(text: str) -> Iterator[_Span]:
    """Yield the place of the value after each word that names a credential."""
    done = at = 0
    while sign := _SIGN.search(text, at):
        end = _end(_WORD_END, text, sign.end())
        # All signs in this word have the same end, except one that contains a hyphen.
        at = max(sign.end(), end - _BEFORE_HYPHEN - 1)
        for span in _after(text, sign, end, done):
            yield span
            done = span[1]


def _after(text: str, sign: re.Match[str], end: int, done: int) -> tuple[_Span, ...]:
    """Return the places of what is to be masked after a word: the value, and its rest.

    All before ``done`` is masked; a word in it counts if its value is behind it.
    """
    if separator := _SEPARATOR.match(text, end):
        if separator.end() < done:
            return ()
        if sign[0].lower() == 'cookie' and ':' in separator[0]:
            return _value(text, separator.end(), _HEADER)
        return _value(text, separator.end(), _PLAIN)
    if end >= done and _OPTION.search(text, max(0, sign.start() - 44), sign.start()):
        space = _OPTION_VALUE.match(text, end)
        return _value(text, space.end(), _PLAIN) if space else ()
    return ()


def _value(text: str, at: int, plain: re.Pattern[str]) -> tuple[_Span, ...]:
    if inside := _inside_quotes(text, at):
        return (inside,)
    end = _end(plain, text, at)
    if end == at:
        return ()
    # The bytes of Python: b'...'.
    if text[at:end].lower() in _PREFIXES and (inside := _inside_quotes(text, end)):
        return (at, end), inside
    return ((at, end),)


def _inside_quotes(text: str, at: int) -> _Span | None:
    opener = _OPENER.match(text, at)
    if opener is None:
        return None
    begin = opener.end()
    end = _end(_QUOTED[bool(opener[1]), opener[2]], text, begin)
    if not opener[1] and text[end : end + 1] != opener[2]:
        # Never closed: the rest of the line can belong to it.
        end = _end(_LINE, text, begin)
    return (begin, end) if end > begin else None


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
