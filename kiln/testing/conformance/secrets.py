"""Fixture that searches logs, errors and values for secrets, and names what it found, where."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.exceptions import AmphoraComputeError
from kiln.testing.conformance.behaviours.planted import CONTENTS, revealed
from kiln.testing.conformance.fixture import ConformanceFixture

# As in runner.py.
__unittest = True

#: Characters of the shortest option that is searched for: a short one occurs in other words.
_SHORTEST = 8
_NOTHING = 'no content of a request, and no secret option of the driver, is revealed'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """A message of a log, and the logger and the line of the program that wrote it."""

    text: str
    logger: str
    line: str


class SecretsFixture(ConformanceFixture):
    """Fixture for behaviours that search for secrets."""

    def secrets(self) -> Mapping[str, str]:
        """Return each text to search for, and what it is."""
        driver = self.bench.driver
        conf = getattr(driver, 'opened_with', None)
        set_: dict[str, Any] = {
            option.name: getattr(conf, option.dest, None)
            for option in getattr(driver, 'options', ())
            if option.secret
        }
        options = {
            value: f'the value of option {name!r}'
            for name, value in set_.items()
            if isinstance(value, str) and len(value) >= _SHORTEST
        }
        return {**CONTENTS, **options}

    def assert_no_secret(self, text: str, where: str) -> None:
        """Fail if a text reveals a secret, in whatever encoding."""
        if what := revealed(text, self.secrets()):
            self.broken(_NOTHING, f'{what} is in {where}')

    def assert_no_secret_in_error(self, error: BaseException) -> None:
        """Fail if a log or a traceback would show a secret of an error or of its causes."""
        kind = type(error).__name__
        self.assert_no_secret(f'{error} {error!r}', f'the message of {kind}')
        if isinstance(error, AmphoraComputeError):
            for name, fact in error.to_dict().items():
                self.assert_no_secret(str(fact), f'{name} of {kind}')
        cause = error.__cause__ or error.__context__
        if cause is not None and cause is not error:
            named = f'the message of {type(cause).__name__}, the cause of {kind}'
            self.assert_no_secret(f'{cause} {cause!r}', named)
        trace = ''.join(traceback.format_exception(error))
        self.assert_no_secret(trace, f'the traceback of {kind}')

    def assert_no_secret_in_log(self, written: Sequence[Written]) -> None:
        """Fail if a log reveals a secret."""
        for one in written:
            self.assert_no_secret(one.text, f'the log, by logger {one.logger} at {one.line}')
        # A secret can be divided among several messages.
        self.assert_no_secret('\n'.join(one.text for one in written), 'several lines of the log')


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[Written] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = f'{record.filename}, line {record.lineno}, in {record.funcName}()'
        text = self.format(record)
        self.written.append(Written(text=text, logger=record.name, line=line))


@contextlib.contextmanager
def everything_logged() -> Iterator[Sequence[Written]]:
    """Collect log messages of all levels, as secrets often leak at debug level."""
    handler = _Collector()
    root = logging.getLogger()
    level, disabled = root.level, root.manager.disable
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.disable(logging.NOTSET)
    try:
        yield handler.written
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.removeHandler(handler)
