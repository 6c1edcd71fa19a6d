"""Wording of errors: phrases for calls, such as 'attach port p1 to web-1'."""

from __future__ import annotations

#: By the label of a call; any other call has the phrase of its name and subject.
_PHRASES = {
    'find_build': 'look for build {subject}',
    'list': 'list the amphorae of {subject}',
    'status': 'read the status of {subject}',
    'statuses': 'read statuses',
    # Their subject is a cursor, which is meaningless in a message.
    'changes': 'read changes',
    'reached': 'read which amphorae are {subject}',
    'check': 'check the backend',
    'attach_port': 'attach port {other} to {subject}',
    'detach_port': 'detach port {other} from {subject}',
    'attach_network': 'attach network {other} to {subject}',
    'detach_network': 'detach network {other} from {subject}',
    'list_resources': 'list the resources of {subject}',
    'delete_resource': 'delete {subject}',
    'console_log': 'read the console log of {subject}',
}

#: Maximum length of a quoted value.
_MAX_QUOTED = 60


def attempt(kind: str, subject: str = '', other: str = '') -> str:
    """Return the phrase that follows "Cannot".

    ``other`` is a second object, such as a port to attach.
    """
    phrase = _PHRASES.get(kind, '')
    words = {'{subject}': subject, '{other}': other}
    if not phrase or any(mark in phrase and not word for mark, word in words.items()):
        return f'{kind.replace("_", " ")} {subject}'.rstrip()
    return phrase.format(subject=subject, other=other)


def quoted(value: object) -> str:
    """Return how an error quotes a wrong argument: its type, and a plain value itself."""
    if value is None or isinstance(value, bool):
        return repr(value)
    kind = type(value).__name__
    if not isinstance(value, str | int | float):
        return f'{_article(kind)} {kind}'
    try:
        text = repr(value)
    # A number of many thousand digits has no text; a subclass can have any text.
    except Exception:
        return f'{_article(kind)} {kind}'
    if len(text) > _MAX_QUOTED:
        text = f'{text[:_MAX_QUOTED]}...'
    return f'{text} ({kind})'


def _article(noun: str) -> str:
    return 'an' if noun[:1] in 'aeiouAEIOU' else 'a'


def kind_of(value: object) -> str:
    """Return the name of a value's type."""
    return type(value).__name__
