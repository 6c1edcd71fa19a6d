"""Build key of one build, and whether it can be known outside of kiln."""

from __future__ import annotations

import os


class BuildKey:
    """The key of one build, shared by everything that works on that build.

    A key that kiln drew is *private* until it can have been read: from the operation,
    from its record, from an error, or from the memory of a forked process. A caller that
    has read it can build with it, here or in another process, and receive the machine.
    """

    __slots__ = ('_drawn_at', 'text')

    def __init__(self, text: str, *, drawn: bool = False) -> None:
        self.text: str = text
        # Compared with the count of forks, because reads in a child are not visible here.
        self._drawn_at = _forks if drawn else None

    @property
    def private(self) -> bool:
        """True if kiln drew the key and it cannot have been read."""
        return self._drawn_at == _forks

    @property
    def known(self) -> str | None:
        """The key for a text or an error; None while it is private."""
        return None if self.private else self.text

    def read(self) -> str:
        """Return the key to a caller, which can build with it from now on."""
        self._drawn_at = None
        return self.text


_forks = 0


def _forked() -> None:
    global _forks  # one process, one count
    _forks += 1


# Before a fork, for keys drawn until then; after it, for keys drawn while the fork began.
os.register_at_fork(before=_forked, after_in_parent=_forked)
