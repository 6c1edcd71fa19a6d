"""Options of a connection to OpenStack: identity, TLS and time-outs."""

from __future__ import annotations

from collections.abc import Iterable

from keystoneauth1 import loading
from oslo_config import cfg

_LOCAL = ('password', 'v3password', 'v3applicationcredential', 'token', 'v3token', 'v3totp')
_FEDERATED = ('v3oidcclientcredentials', 'v3oidcpassword', 'v3oidcaccesstoken')
#: The auth plugins whose options are read from the backend's group. A site that needs
#: another plugin configures it in clouds.yaml, and names that cloud with ``cloud``.
AUTH_TYPES = (*_LOCAL, *_FEDERATED, 'http_basic', 'none')


def _auth_opts() -> list[cfg.Opt]:
    opts: dict[str, cfg.Opt] = {}
    for name in AUTH_TYPES:
        for opt in loading.get_auth_plugin_conf_options(name):
            opts.setdefault(opt.dest, opt)
    # `endpoint` of the plugins without a catalogue would apply to every service;
    # the endpoint overrides are more precise.
    return _sentences(opt for dest, opt in opts.items() if dest != 'endpoint')


_TLS = ('cafile', 'certfile', 'keyfile', 'insecure', 'tls-ciphers', 'tls-min-version')


def _sentences(given: Iterable[cfg.Opt]) -> list[cfg.Opt]:
    """Return keystoneauth's options as optional, with help texts in kiln's style."""
    opts = list(given)
    for opt in opts:
        if opt.name == 'insecure':
            opt.help = 'Do not verify the certificates of servers.'
        # Another plugin might be in use; and a controller cannot reload its files
        # while a group lacks a required option.
        opt.required = False
        text = (opt.help or opt.dest.replace('_', ' ')).strip().rstrip('.')
        opt.help = f'{text[0].upper()}{text[1:]}.'
    return opts


#: The credentials, and the endpoints that are used.
IDENTITY = [
    cfg.StrOpt(
        'cloud',
        help='Name of a cloud in clouds.yaml with the credentials, region and TLS '
        'settings. Unset: they are read from this group.',
    ),
    cfg.StrOpt(
        'auth_type',
        default='password',
        help='Auth plugin of keystoneauth; its options are read from this group. One of '
        f'{", ".join(AUTH_TYPES)}.',
    ),
    *_auth_opts(),
    cfg.StrOpt('region_name', help='Region whose endpoints are used. Unset: the only one.'),
    cfg.ListOpt(
        'valid_interfaces',
        default=['internal', 'public'],
        help='Interfaces of the endpoints, the preferred one first.',
    ),
]

TLS = _sentences(opt for opt in loading.get_session_conf_options() if opt.name in _TLS)

TIMEOUTS = [
    cfg.FloatOpt(
        'timeout',
        default=60.0,
        min=0.1,
        help='Seconds to wait for a response. After that the request has failed, and kiln '
        'checks whether it took effect.',
    ),
    cfg.FloatOpt(
        'connect_timeout', default=10.0, min=0.1, help='Seconds to wait for a connection.'
    ),
]
