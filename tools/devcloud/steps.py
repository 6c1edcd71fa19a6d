"""Record of the steps of an installation, each done once, and whether a snapshot has them."""

import pathlib
from collections.abc import Iterable


class Steps:
    """The steps that are done, in a folder of their data."""

    def __init__(self, folder: pathlib.Path):
        self._done = folder / 'done'
        self._unsaved = folder / 'unsaved'

    def done(self) -> set[str]:
        """Return the steps that are done."""
        return set(self._done.read_text().splitlines()) if self._done.exists() else set()

    def mark(self, steps: Iterable[str]) -> None:
        """Record steps as done; from then on the snapshot lacks them."""
        if text := ''.join(f'{step}\n' for step in steps):
            # First, so that no interruption leaves steps that no snapshot will ever have.
            self._unsaved.touch()
            with self._done.open('a') as done:
                done.write(text)

    @property
    def unsaved(self) -> bool:
        """True if steps were done since the last snapshot, also by a start that failed."""
        return self._unsaved.exists()

    def saved(self) -> None:
        """Record that a snapshot has all of them."""
        self._unsaved.unlink(missing_ok=True)
