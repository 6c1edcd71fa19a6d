"""Octavia: API and worker, with whatever compute driver is under test."""

import json
import pathlib
from collections.abc import Mapping

from ..packages import HERE
from ..place import HOST, PASSWORD, REGION, Place
from ..processes import Process, Stage
from ..settings import Sections, common, service_user
from ..wishes import Wishes
from .base import SERVER_PACKAGES, Service

QUOTAS = ('load_balancer', 'listener', 'pool', 'member', 'health_monitor', 'l7policy', 'l7rule')
PROVIDERS = 'amphora:Amphora,octavia:alias,noop_driver:Noop,noop_driver-alt:Noop'


class Octavia(Service):
    """Load balancers whose amphorae are real servers; their agent is a no-op."""

    name = 'octavia'
    requirements: tuple[str, ...] = (
        'octavia',
        'python-octaviaclient',
        'python-openstackclient',
        'setuptools',
        *SERVER_PACKAGES,
    )
    clients = ('python-octaviaclient',)
    databases = ('octavia',)
    catalog = ('load-balancer', '')
    # A driver under test brings its own requirements; the cloud's do not change.
    venv_name = 'octavia-venv'
    needs_seed = True

    def __init__(self, place: Place, wishes: Wishes):
        super().__init__(place, wishes)
        self.requirements = (*self.requirements, *wishes.octavia_packages)

    @property
    def certificates(self) -> pathlib.Path:
        """The folder of its authorities and certificates."""
        return self.data / 'certificates'

    @property
    def versions(self) -> pathlib.Path:
        return self.venv.stamp  # the drivers under test have no constraint

    def files(self) -> Mapping[pathlib.Path, Sections]:
        seeded = self._seeded()
        user = service_user(self.place, self.name)
        client = {'region_name': REGION, 'endpoint_type': 'internalURL'}
        sections = common(self.place, self.name, host='kiln-ctl')
        del sections['DEFAULT']['state_path']
        sections['api_settings'] = {
            'bind_host': HOST,
            'bind_port': self.place.port(self.name),
            'auth_strategy': 'keystone',
            'default_provider_driver': 'amphora',
            'enabled_provider_drivers': PROVIDERS,
            'pagination_max_limit': 1000,
        }
        sections['oslo_messaging'] = {'topic': 'octavia_prov'}
        sections['service_auth'] = user
        sections['neutron'] = {**user, 'valid_interfaces': 'internal'}
        sections['nova'] = {**client, 'enable_anti_affinity': False}
        sections['glance'] = client
        sections['certificates'] = {
            'cert_generator': 'local_cert_generator',
            'cert_manager': 'noop_cert_manager',
            'ca_certificate': self.certificates / 'server_ca.cert.pem',
            'ca_private_key': self.certificates / 'server_ca.key.pem',
            'server_certs_key_passphrase': 'insecure-key-do-not-use-this-key',
        }
        sections['haproxy_amphora'] = {
            'server_ca': self.certificates / 'server_ca.cert.pem',
            'client_cert': self.certificates / 'client.cert-and-key.pem',
            'connection_max_retries': 2,
            'active_connection_max_retries': 2,
        }
        sections['health_manager'] = {
            'heartbeat_key': PASSWORD,
            'bind_ip': HOST,
            'controller_ip_port_list': f'{HOST}:{self.place.port("octavia_heartbeat")}',
        }
        sections['controller_worker'] = {
            'workers': 1,
            'client_ca': self.certificates / 'client_ca.cert.pem',
            'amp_image_tag': 'amphora',
            'amp_flavor_id': seeded['flavor'],
            'amp_boot_network_list': seeded['network'],
            'amp_secgroup_list': seeded['security_group'],
            'amp_active_wait_sec': 1,
            'amp_active_retries': 100,
            'loadbalancer_topology': 'SINGLE',
            'amphora_driver': 'amphora_noop_driver',
            'compute_driver': 'compute_nova_driver',
            'network_driver': 'allowed_address_pairs_driver',
            'image_driver': 'image_glance_driver',
            'volume_driver': 'volume_noop_driver',
            'event_notifications': False,
        }
        sections['quotas'] = {f'default_{kind}_quota': -1 for kind in QUOTAS}
        return {self.config: sections}

    def _seeded(self) -> dict[str, str]:
        seeded: dict[str, str] = json.loads(self.place.seeded.read_text())
        return seeded

    def folders(self) -> tuple[pathlib.Path, ...]:
        return (self.data, self.certificates)

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        make = HERE / 'inside' / 'certificates.py'
        return (
            (self.venv.python, make, self.certificates),
            (
                *(*self.venv.script('octavia-db-manage'), '--config-file', self.config),
                *('upgrade', 'head'),
            ),
        )

    def processes(self) -> tuple[Process, ...]:
        arguments = ('--config-file', str(self.config))
        return (
            self.api('octavia.wsgi.api', arguments=arguments, stage=Stage.CONTROL),
            Process(
                'octavia-worker',
                (*self.venv.script('octavia-worker'), *arguments),
                Stage.CONTROL,
                config=(self.config, self.versions),
                ready_text='Starting V2 consumer',
            ),
        )
