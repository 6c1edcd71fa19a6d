"""Credentials of Heat: the document in a cluster's secret, checked like options."""

from __future__ import annotations

import types
from typing import Any

from oslo_config import cfg

from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import KNOWN_SECRETS
from kiln.openstack.identity import IDENTITY, TIMEOUTS, TLS
from kiln.yaml_schema.mistake_list import Mistakes, close_to
from kiln.yaml_schema.nodes import plain
from kiln.yaml_schema.reader import documents

#: Each is a key of the document.
opts = [
    *IDENTITY,
    cfg.StrOpt(
        'orchestration_endpoint_override',
        help='URL of Heat, with the project, instead of the one in the catalogue.',
    ),
    *TLS,
    *TIMEOUTS,
]

_OPTS = {opt.dest: opt for opt in opts}
_WRITE = (
    'Write one option a line, such as "auth_url: https://keystone.example.com/v3"; the guide '
    'to Heat lists them.'
)


def settings_of(document: str) -> Any:
    """Return the options in a document: an object with a value for each option.

    No message quotes a value.

    :raises ClusterDriverError: it is not such a document, or an option or value is wrong.
    """
    mistakes = Mistakes()
    found = list(documents(document, mistakes))
    if mistakes.told or len(found) != 1 or not found[0].entries:
        raise ClusterDriverError('The credentials for Heat are not a mapping of options.', _WRITE)
    given = {name.replace('-', '_'): plain(pair.value) for name, pair in found[0].entries.items()}
    values: dict[str, Any] = {name: opt.default for name, opt in _OPTS.items()}
    for name, value in given.items():
        if name not in _OPTS:
            near = close_to(name, _OPTS)
            meant = f' Did you mean {near}?' if near else ''
            raise ClusterDriverError(
                f'The credentials for Heat have an option that does not exist.{meant}', _WRITE
            )
        values[name] = _read(_OPTS[name], value)
    return types.SimpleNamespace(**values)


def _read(opt: cfg.Opt, value: Any) -> Any:
    if value is None:
        return opt.default
    try:
        text = ','.join(map(str, value)) if isinstance(value, list) else str(value)
        if opt.secret:
            # Heat and Keystone can quote it.
            KNOWN_SECRETS.note(text)
        return opt.type(text)
    # The message of the option's type quotes the value.
    except (ValueError, TypeError):
        raise ClusterDriverError(
            f'The credentials for Heat have a wrong value of {opt.dest}.', opt.help or ''
        ) from None
