"""Ironic: simulated bare-metal machines, and some whose power is switched by Redfish."""

import pathlib
from collections.abc import Mapping
from types import MappingProxyType

from ..packages import HERE
from ..place import HOST
from ..processes import Process, Stage
from ..settings import Sections, common, service_user
from .base import Service

INTERFACES = {
    'bios': 'fake,no-bios,redfish',
    'boot': 'fake,redfish-virtual-media',
    'console': 'fake,no-console',
    'deploy': 'fake,direct,custom-agent,ramdisk',
    'firmware': 'fake,no-firmware',
    'inspect': 'fake,no-inspect,redfish',
    'management': 'fake,redfish',
    'network': 'noop,flat',
    'power': 'fake,redfish',
    'raid': 'fake,no-raid',
    'rescue': 'fake,no-rescue',
    'storage': 'noop,fake',
    'vendor': 'fake,no-vendor',
}
REDFISH = HERE / 'inside' / 'redfish.py'


class Ironic(Service):
    """API and conductor in one process, and what its machines talk to.

    They read files from a server beside it, and some have a simulated controller that speaks
    Redfish.
    """

    name = 'ironic'
    requirements = ('ironic', 'python-ironicclient', 'sushy-tools')
    # Makes config drives.
    debian = MappingProxyType({'/usr/bin/genisoimage': 'genisoimage'})
    databases = ('ironic',)
    catalog = ('baremetal', '')
    living_tables = ('ironic.conductors',)

    def folders(self) -> tuple[pathlib.Path, ...]:
        return tuple(self.data / name for name in ('http', 'images', 'master', 'tmp', 'redfish'))

    def files(self) -> Mapping[pathlib.Path, Sections]:
        place = self.place
        http, images, master, temporary, _ = self.folders()
        sections = common(
            place,
            self.name,
            host='kiln-ctl',
            my_ip=HOST,
            rpc_transport='none',
            auth_strategy='keystone',
            enabled_hardware_types='fake-hardware,redfish',
            default_network_interface='noop',
            http_root=http,
            tempdir=temporary,
            **{f'enabled_{kind}_interfaces': names for kind, names in INTERFACES.items()},
        )
        sections['api'] = {
            'host_ip': HOST,
            'port': place.port(self.name),
            'public_endpoint': place.url(self.name),
        }
        sections['conductor'] = {
            'automated_clean': False,
            'heartbeat_interval': 5,
            'sync_power_state_interval': 30,
            'check_provision_state_interval': 5,
            'deploy_callback_timeout': 60,
        }
        sections['deploy'] = {
            'http_root': http,
            'http_url': place.url('ironic_files'),
            # Machines fetch an ISO where it is.
            'ramdisk_image_download_source': 'http',
        }
        sections['pxe'] = {'images_path': images, 'instance_master_path': master}
        sections['dhcp'] = {'dhcp_provider': 'none'}
        for section in ('glance', 'neutron', 'nova', 'service_catalog'):
            sections[section] = service_user(place, self.name)
        # It is looked up whenever a node with ports is deployed.
        sections['neutron']['cleaning_network'] = 'net1'
        sections['nova']['send_power_notifications'] = False
        return {self.config: sections}

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        return ((*self.venv.script('ironic-dbsync'), '--config-file', self.config, 'upgrade'),)

    def processes(self) -> tuple[Process, ...]:
        port, http = self.place.port, str(self.data / 'http')
        files = ('-m', 'http.server', '--bind', HOST, '--directory', http)
        return (
            Process(
                'ironic-files',
                (str(self.venv.python), *files, str(port('ironic_files'))),
                Stage.API,
                port=port('ironic_files'),
                url=self.place.url('ironic_files'),
            ),
            Process(
                'redfish',
                (
                    *self.venv.script('sushy-emulator'),
                    *('--config', str(REDFISH), '--fake'),
                    *('--interface', HOST, '--port', str(port('redfish'))),
                ),
                Stage.API,
                {'KILN_REDFISH_STATE': str(self.data / 'redfish')},
                (REDFISH, self.versions),
                port=port('redfish'),
                url=f'{self.place.url("redfish")}/redfish/v1/',
            ),
            Process(
                'ironic-api',
                (*self.venv.script('ironic'), '--config-file', str(self.config)),
                Stage.CONTROL,
                config=(self.config, self.versions),
                port=self.place.port(self.name),
                url=self.place.url(self.name),
            ),
        )
