"""Configuration files of OpenStack services as plain data."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import CloudError
from .place import HOST, PASSWORD, REGION, Place

Sections = dict[str, dict[str, Any]]

QUIET = (
    'amqp',
    'keystoneauth',
    'keystonemiddleware',
    'oslo',
    'oslo_messaging',
    'sqlalchemy',
    'stevedore',
    'urllib3',
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One option of one service, set by the user."""

    service: str
    section: str
    option: str
    value: str

    @classmethod
    def parse(cls, text: str) -> 'Setting':
        """Read SERVICE.SECTION.OPTION=VALUE."""
        path, equals, value = text.partition('=')
        parts = path.split('.')
        if not equals or len(parts) != 3 or not all(parts):
            raise CloudError(f'{text!r} is not SERVICE.SECTION.OPTION=VALUE')
        service, section, option = parts
        return cls(service, section, option, value)

    @property
    def path(self) -> str:
        """What it sets."""
        return f'{self.service}.{self.section}.{self.option}'

    def __str__(self) -> str:
        return f'{self.path}={self.value}'


def apply(sections: Sections, settings: Iterable[Setting], service: str) -> Sections:
    """Return the sections of a service with the user's settings on top."""
    result = {name: dict(options) for name, options in sections.items()}
    for setting in settings:
        if setting.service == service:
            result.setdefault(setting.section, {})[setting.option] = setting.value
    return result


def render(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a configuration file; booleans are spelt as oslo.config does."""
    lines = []
    for name, options in sections.items():
        lines.append(f'[{name}]')
        lines += [f'{option} = {_spell(value)}' for option, value in options.items()]
        lines.append('')
    return '\n'.join(lines)


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write(path: pathlib.Path, text: str) -> None:
    """Write a file with its folder; an identical file is left alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def database_url(place: Place, name: str) -> str:
    """Return the URL of a service's database."""
    return f'mysql+pymysql://root@localhost/{name}?unix_socket={place.socket}&charset=utf8'


def service_user(place: Place, name: str) -> dict[str, Any]:
    """Return the options with which a service authenticates as itself."""
    return {
        'auth_type': 'password',
        'auth_url': place.keystone,
        'username': name,
        'password': PASSWORD,
        'project_name': 'service',
        'user_domain_name': 'Default',
        'project_domain_name': 'Default',
        'region_name': REGION,
    }


def common(place: Place, service: str, **default: Any) -> Sections:
    """Return the sections that nearly every service has."""
    state = place.data / service
    memcached = f'{HOST}:{place.port("memcached")}'
    return {
        'DEFAULT': {
            'state_path': state,
            'debug': False,
            'use_stderr': True,
            'default_log_levels': ','.join(f'{name}=WARN' for name in QUIET),
            'transport_url': f'rabbit://guest:guest@{HOST}:{place.port("rabbit")}/',
            **default,
        },
        'database': {
            'connection': database_url(place, service),
            'max_pool_size': 20,
            'max_overflow': 40,
            'connection_recycle_time': 3600,
        },
        'oslo_concurrency': {'lock_path': state / 'lock'},
        'oslo_messaging_rabbit': {
            'amqp_durable_queues': False,
            'heartbeat_timeout_threshold': 0,
            'kombu_reconnect_delay': 0.5,
            'rabbit_quorum_queue': False,
            'rabbit_transient_quorum_queue': False,
            'rpc_conn_pool_size': 30,
        },
        'oslo_messaging_notifications': {'driver': 'noop'},
        'keystone_authtoken': {
            **service_user(place, service),
            'www_authenticate_uri': place.keystone,
            'memcached_servers': memcached,
            'token_cache_time': 3600,
            'service_token_roles': 'service',
            'service_token_roles_required': True,
            'interface': 'internal',
        },
        'oslo_policy': {'enforce_scope': True, 'enforce_new_defaults': True},
        'cache': {
            'enabled': True,
            'backend': 'dogpile.cache.pymemcache',
            'memcache_servers': memcached,
        },
        'oslo_reports': {'log_dir': place.log},
    }
