"""Error of the development engine."""

import pathlib

_LINES = 15


class EngineError(Exception):
    """The engine cannot carry out a command; the text says why."""

    def __init__(self, message: str, log: pathlib.Path | None = None):
        if log is not None and log.exists():
            last = log.read_text(errors='replace').splitlines()[-_LINES:]
            message = '\n'.join([message, f'--- {log}:', *last])
        super().__init__(message)
