"""The one error of the development cloud."""

import pathlib

TAIL_LINES = 15


class CloudError(Exception):
    """A part of the cloud failed; the text names it and has the end of its log."""

    def __init__(self, message: str, log: pathlib.Path | None = None):
        super().__init__(message)
        self.log = log

    def __str__(self) -> str:
        message = super().__str__()
        if self.log is None or not self.log.exists():
            return message
        tail = ''.join(f'\n  | {line}' for line in last_lines(self.log, TAIL_LINES))
        return f'{message}; the end of {self.log}:{tail}'


def last_lines(path: pathlib.Path, count: int) -> list[str]:
    """Return the last lines of a log that can be large."""
    with path.open('rb') as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - 400 * count))
        return log.read().decode(errors='replace').splitlines()[-count:]
