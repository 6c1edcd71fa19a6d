"""Set-up of oslo.log from the options of the command and the configuration."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from kiln.exceptions import ConfigurationError

#: Other users cannot read a log, which names machines, addresses and owners.
_MODE = 0o640


def set_up(
    config_files: Sequence[str] | None,
    config_dirs: Sequence[str] | None,
    *,
    debug: bool = False,
    to_stderr: bool = False,
    log_file: str | None = None,
) -> None:
    """Configure logging from the options in [DEFAULT]; the arguments override them.

    Files of the log that are created are not for other users.

    :raises ConfigurationError: the options cannot be used.
    """
    # A separate set of options: oslo.log must register before the files are read,
    # and kiln has read them before it knows that a log is enabled.
    conf = cfg.ConfigOpts()
    log.register_options(conf)
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
        if isinstance(handler, logging.FileHandler):
            # A rotation opens a new file, by this function.
            handler._builtin_open = functools.partial(open, opener=_opened)  # type: ignore[attr-defined]


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)
