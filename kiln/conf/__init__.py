"""Configuration of kiln: loading of kiln.conf, and one module per option group."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from kiln.conf import clusters, compute, db, hooks, images, secrets
from kiln.exceptions import KNOWN_SECRETS, ConfigurationError

#: The groups of kiln but those of backends, with their options.
GROUPS: Mapping[str, Sequence[Any]] = {
    compute.GROUP: compute.SITE_OPTS,
    **{module.GROUP: module.OPTS for module in (clusters, db, hooks, images, secrets)},
}


class Configuration(cfg.ConfigOpts):
    """Options whose values the environment can override."""

    environment: Mapping[str, str] = {}


def load(
    config_files: Sequence[str] | None = None,
    config_dirs: Sequence[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> cfg.ConfigOpts:
    """Read kiln.conf or the given files, and return the options.

    :raises ConfigurationError: a file or directory is missing or cannot be read.
    """
    for folder in config_dirs or ():
        # oslo.config would ignore a missing directory, and kiln would use defaults.
        if not Path(folder).is_dir():
            raise ConfigurationError(
                f'Cannot read the configuration: directory {folder} does not exist.'
            )
    conf = Configuration()
    conf.environment = os.environ if environment is None else environment
    try:
        conf(
            args=[],
            project='kiln',
            default_config_files=None if config_files is None else list(config_files),
            default_config_dirs=None if config_dirs is None else list(config_dirs),
            use_env=False,
        )
    except cfg.Error as exc:
        raise ConfigurationError(f'Cannot read the configuration: {exc}') from exc
    except (OSError, ValueError) as exc:
        # oslo.config does not name the file if it is a directory or binary.
        files = ', '.join(config_files or ['kiln.conf'])
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise ConfigurationError(f'Cannot read the configuration in {files}: {why}') from exc
    for group, opts in GROUPS.items():
        register(conf, group, opts)
    return conf


def register(
    conf: cfg.ConfigOpts,
    group: str,
    opts: Sequence[Any],
    defaults: Mapping[str, Any] | None = None,
) -> Any:
    """Declare options and return their values; the environment has precedence.

    The variable for option ``rate`` of group ``compute:east`` is
    ``KILN_COMPUTE_EAST__RATE``. ``defaults`` replace the defaults of the options.

    :raises ConfigurationError: a value or the name of an option is invalid.
    """
    for opt in opts:
        # oslo.config would hide the method of the group, which is needed for reading.
        if hasattr(Mapping, opt.dest):
            raise ConfigurationError(
                f'Cannot use option [{group}] {opt.dest}: the name is a method of every '
                f'group. Rename the option.'
            )
    # A controller with its own ConfigOpts configures kiln in its own files.
    environment = conf.environment if isinstance(conf, Configuration) else {}
    opt = None
    try:
        conf.register_opts(opts, group)
        for name, default in (defaults or {}).items():
            conf.set_default(name, default, group)
        for opt in opts:
            value = environment.get(environment_name(group, opt.dest))
            if value is not None:
                typed = [opt.type(v) for v in value.splitlines()] if opt.multi else opt.type(value)
                conf.set_override(opt.dest, typed, group)
            # Read once, so that an invalid value is found now instead of during a
            # build.
            found = getattr(conf[group], opt.dest)
            # oslo.config takes an empty number for none.
            if found is None and (defaults or {}).get(opt.dest, opt.default) is not None:
                raise ValueError('it is empty; give it a value, or leave it out')
            _check_finite(found)
            _note_secret(opt, found)
    except (cfg.Error, ValueError) as exc:
        what = f'option [{group}] {opt.dest}' if opt else f'the options of [{group}]'
        raise ConfigurationError(f'Cannot use {what}: {exc}') from exc
    return conf[group]


def _check_finite(value: Any) -> None:
    # Bounds hold nothing back here: no comparison with nan is true.
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f'{value} is not a finite number')


def _note_secret(opt: Any, value: Any) -> None:
    """Have the value of an option masked in whatever is logged, as far as it is a secret."""
    if not isinstance(value, str):
        return
    if '://' in value:
        KNOWN_SECRETS.note_url(value)
    elif opt.secret and value != opt.default:
        KNOWN_SECRETS.note(value)


def environment_name(group: str, option: str) -> str:
    """Return the environment variable that overrides an option."""
    return 'KILN_' + re.sub(r'\W', '_', group).upper() + '__' + option.upper()


def backend_names(conf: cfg.ConfigOpts) -> list[str]:
    """Return the names of all [compute:NAME] groups, in the order of the files."""
    prefix = f'{compute.GROUP}:'
    return [
        section.removeprefix(prefix)
        for section in conf.list_all_sections()
        if section.startswith(prefix)
    ]
