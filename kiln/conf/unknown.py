"""Unknown groups and options: what configuration files set, and nothing reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from kiln.conf import GROUPS

#: From 0 to 1, how much like a group of kiln the name of a misspelt one is.
_ALIKE = 0.8


def unknown_settings(conf: cfg.ConfigOpts) -> list[str]:
    """Return a sentence for each option that no group of the site has, and each misspelt group.

    Groups of others may be in the files: one counts if its name is much like a group of kiln.
    """
    found = []
    for section in conf.list_all_sections():
        nearest = difflib.get_close_matches(section, GROUPS, n=1, cutoff=_ALIKE)
        if section in GROUPS:
            found += unknown_options(conf, section, GROUPS[section])
        elif nearest:
            found.append(
                f'Group [{section}] is unknown, and is ignored. Did you mean [{nearest[0]}]?'
            )
    return found


def unknown_options(conf: cfg.ConfigOpts, group: str, opts: Sequence[Any]) -> list[str]:
    """Return a sentence for each option of a group that the files set and nothing declares.

    ``opts`` are the declared options of the group, whose older names are known as well.
    """
    older = {old.name for opt in opts for old in opt.deprecated_opts if old.name}
    known = {name.replace('-', '_') for name in {*conf[group], *older}}
    return [
        _sentence(group, name, sorted(known))
        for name in dict.fromkeys(_set_options(conf, group))
        if name.replace('-', '_') not in known
    ]


def _sentence(group: str, name: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f' Did you mean {nearest[0]}?' if nearest else ''
    return f'Group [{group}] has an unknown option, {name}; it is ignored.{hint}'


def _set_options(conf: cfg.ConfigOpts, group: str) -> Iterator[str]:
    """Yield the names that the configuration files set in a group."""
    for file in _files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        # The files were read before; one that has changed since is not the one in use.
        try:
            cfg.ConfigParser(str(file), sections).parse()
        except (cfg.Error, OSError, ValueError):
            continue
        yield from sections.get(group, {})


def _files(conf: cfg.ConfigOpts) -> Iterator[Path]:
    yield from map(Path, conf.config_file or ())
    for folder in conf.config_dir or ():
        yield from sorted(Path(folder).glob('*.conf'))
