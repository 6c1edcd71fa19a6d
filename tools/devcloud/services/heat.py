"""Heat: stacks."""

import pathlib
from collections.abc import Mapping

from ..place import HOST, PASSWORD, REGION
from ..processes import Process, Stage
from ..settings import Sections, common, service_user
from .base import Service


class Heat(Service):
    """API and one engine."""

    name = 'heat'
    requirements = ('openstack-heat', 'python-heatclient')
    databases = ('heat',)
    catalog = ('orchestration', '/v1/%(tenant_id)s')
    living_tables = ('heat.service',)

    def files(self) -> Mapping[pathlib.Path, Sections]:
        place = self.place
        sections = common(
            place,
            self.name,
            host='kiln-ctl',
            region_name_for_services=REGION,
            server_keystone_endpoint_type='public',
            # Guests that would send requests here do not exist.
            heat_metadata_server_url=place.url('heat'),
            stack_user_domain_name='heat',
            stack_domain_admin='heat_domain_admin',
            stack_domain_admin_password=PASSWORD,
            num_engine_workers=1,
            environment_dir=self.venv.file('heat/environment.d'),
            template_dir=self.venv.file('heat/templates'),
            plugin_dirs='',
            deferred_auth_method='trusts',
            convergence_engine=True,
            # Five repeats of a server that no host has room for would take minutes.
            action_retry_limit=1,
            max_resources_per_stack=10000,
            max_stacks_per_tenant=10000,
            auth_encryption_key='kiln' * 8,
        )
        sections['trustee'] = service_user(place, self.name)
        sections['clients_keystone'] = {'auth_uri': place.keystone}
        sections['heat_api'] = {
            'bind_host': HOST,
            'bind_port': place.port(self.name),
            'workers': 0,
        }
        sections['paste_deploy'] = {'api_paste_config': self.etc / 'api-paste.ini'}
        return {self.config: sections}

    def copies(self) -> Mapping[pathlib.Path, pathlib.Path]:
        return {self.etc / 'api-paste.ini': self.venv.file('heat/api-paste.ini')}

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        return ((*self.venv.script('heat-manage'), '--config-file', self.config, 'db_sync'),)

    def processes(self) -> tuple[Process, ...]:
        arguments = ('--config-file', str(self.config))
        return (
            self.api('heat.wsgi.api', arguments=arguments, stage=Stage.CONTROL),
            self.daemon('heat-engine', 'heat-engine', self.config),
        )
