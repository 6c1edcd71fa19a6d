"""How errors tell what could not be done: 'attach port p1 to web-1'."""

from __future__ import annotations

#: By the label of a call; any other is told by its own name and its subject.
_PHRASES = {
    'find_build': 'look for build {subject}',
    'list': 'list the amphorae of {subject}',
    'status': 'read the status of {subject}',
    'statuses': 'read statuses',
    # Their subject is a cursor, which tells nobody anything.
    'changes': 'read changes',
    'reached': 'read who is {subject}',
    'check': 'check the backend',
    'attach_port': 'attach port {other} to {subject}',
    'detach_port': 'detach port {other} from {subject}',
    'attach_network': 'attach network {other} to {subject}',
    'detach_network': 'detach network {other} from {subject}',
    'list_resources': 'list the resources of {subject}',
    'delete_resource': 'delete {subject}',
    'console_log': 'read the console log of {subject}',
}


def attempt(kind: str, subject: str = '', other: str = '') -> str:
    """Return what was to be done, to follow "Cannot".

    ``other`` is what was to be brought to the subject, such as a port.
    """
    phrase = _PHRASES.get(kind, '')
    words = {'{subject}': subject, '{other}': other}
    if not phrase or any(mark in phrase and not word for mark, word in words.items()):
        return f'{kind.replace("_", " ")} {subject}'.rstrip()
    return phrase.format(subject=subject, other=other)
