"""Set-up of oslo.log from the options of the command and the configuration."""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import JSONFormatter

from kiln.exceptions import ConfigurationError, redact_all

#: Other users cannot read a log, which names machines, addresses and owners.
_MODE = 0o640
#: Options of oslo.log by which a log goes elsewhere than to stderr.
_ELSEWHERE = ('log_file', 'log_dir', 'log_config_append', 'use_syslog', 'use_journal')


class Masking(logging.Formatter):
    """Formats as another formatter, and masks all secrets: in tracebacks, and of any library."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> Any:
        """Return what is logged: a text, or plain data where the other one returns some."""
        told = self._format(record)
        if record.exc_text:
            # Others use it from there.
            record.exc_text = redact_all(record.exc_text)
        if isinstance(self._inner, JSONFormatter):
            # A mask in JSON itself could take a part of its syntax away.
            return json.dumps(_masked(json.loads(told)))
        return _masked(told)

    def _format(self, record: logging.LogRecord) -> Any:
        if record.exc_info or not record.name.startswith('kiln'):
            return self._inner.format(record)
        # oslo.log adds the error that is being handled, unless it is one of this kind. What kiln
        # logs of an error is in the message already.
        try:
            raise KeyError
        except KeyError:
            return self._inner.format(record)

    def formatException(self, ei: Any) -> Any:  # noqa: N802  # the name of logging
        return _masked(self._inner.formatException(ei))


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return redact_all(value)
    if isinstance(value, dict):
        return {name: _masked(inner) for name, inner in value.items()}
    return [_masked(one) for one in value] if isinstance(value, list | tuple) else value


def set_up(
    config_files: Sequence[str] | None,
    config_dirs: Sequence[str] | None,
    *,
    debug: bool = False,
    to_stderr: bool = False,
    log_file: str | None = None,
    service: bool = False,
) -> None:
    """Configure logging from the options in [DEFAULT]; the arguments override them.

    A service for which no log is configured logs to stderr.

    Files of the log that are created are not for other users.

    :raises ConfigurationError: the options cannot be used.
    """
    # A separate set of options: oslo.log must register before the files are read,
    # and kiln has read them before it knows that a log is enabled.
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    # The command reports an upgrade itself, and a plugin of a library that is missing is no
    # concern of an operator.
    quiet = [*log.get_default_log_levels(), 'alembic=WARNING', 'stevedore=ERROR']
    log.set_defaults(default_log_levels=quiet)
    try:
        conf(
            args=[],
            project='kiln',
            default_config_files=None if config_files is None else list(config_files),
            default_config_dirs=None if config_dirs is None else list(config_dirs),
        )
        for name, value in {'debug': debug, 'use_stderr': to_stderr, 'log_file': log_file}.items():
            if value:
                conf.set_override(name, value)
        if service and not any(conf[name] for name in _ELSEWHERE):
            conf.set_default('use_stderr', True)
        _set_up(conf)
    except (cfg.Error, log.LogConfigError, OSError, ValueError) as exc:
        raise ConfigurationError(f'Cannot set up the log: {exc}') from exc


def _set_up(conf: cfg.ConfigOpts) -> None:
    former = os.umask(0o777 & ~_MODE)
    os.umask(former | 0o777 & ~_MODE)
    try:
        log.setup(conf, 'kiln')
    finally:
        os.umask(former)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Masking(handler.formatter or logging.Formatter()))
        if isinstance(handler, logging.FileHandler):
            # A rotation opens a new file, by this function.
            handler._builtin_open = functools.partial(open, opener=_opened)  # type: ignore[attr-defined]


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)
