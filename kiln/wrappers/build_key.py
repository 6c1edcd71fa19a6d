"""A build key, and whether anybody but kiln can know it."""

from __future__ import annotations

import os


class BuildKey:
    """The key of one build, shared by all that works on that build.

    A key that kiln drew is *private* until somebody can have read it: from the operation,
    from its record, from an error, or from the memory of a forked process. Whoever has
    read it can build with it, here or in another process, and be given the machine.
    """

    __slots__ = ('_drawn_at', 'text')

    def __init__(self, text: str, *, drawn: bool = False) -> None:
        self.text = text
        # By the count of forks, since what a child reads is not seen here.
        self._drawn_at = _forks if drawn else None

    @property
    def private(self) -> bool:
        """True if kiln drew the key and nobody can have read it."""
        return self._drawn_at == _forks

    @property
    def known(self) -> str | None:
        """The key for a text or an error; None while it is private."""
        return None if self.private else self.text

    def read(self) -> str:
        """Return the key to somebody outside of kiln, who can build with it from now on."""
        self._drawn_at = None
        return self.text


_forks = 0


def _forked() -> None:
    global _forks  # one process, one count
    _forks += 1


# Before, for the keys drawn until then; after, for those drawn while the fork began.
os.register_at_fork(before=_forked, after_in_parent=_forked)
