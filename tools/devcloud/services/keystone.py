"""Keystone: users, roles and the service catalog."""

import pathlib
from collections.abc import Mapping

from ..place import PASSWORD, REGION
from ..processes import Process
from ..settings import Sections, common
from .base import SERVER_PACKAGES, Service


class Keystone(Service):
    """Identity, with Fernet tokens and cheap password hashes."""

    name = 'keystone'
    requirements = ('keystone', 'openstacksdk', *SERVER_PACKAGES)
    databases = ('keystone',)

    def files(self) -> Mapping[pathlib.Path, Sections]:
        sections = common(self.place, self.name)
        del sections['keystone_authtoken']
        sections['token'] = {'provider': 'fernet', 'expiration': 86400}
        sections['fernet_tokens'] = {'key_repository': self.data / 'fernet'}
        sections['credential'] = {'key_repository': self.data / 'credential'}
        sections['identity'] = {'password_hash_algorithm': 'bcrypt', 'password_hash_rounds': 4}
        return {self.config: sections}

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        manage = (*self.venv.script('keystone-manage'), '--config-file', self.config)
        owner = ('--keystone-user', 'root', '--keystone-group', 'root')
        urls = [
            f'--bootstrap-{interface}-url={self.place.keystone}'
            for interface in ('admin', 'internal', 'public')
        ]
        return (
            (*manage, 'fernet_setup', *owner),
            (*manage, 'credential_setup', *owner),
            (*manage, 'db_sync'),
            (
                *(*manage, 'bootstrap', '--bootstrap-password', PASSWORD),
                *('--bootstrap-region-id', REGION, *urls),
            ),
        )

    def processes(self) -> tuple[Process, ...]:
        return (self.api('keystone.wsgi.api'),)
