"""Neutron: networks and ports without an agent; an ML2 driver of this tool binds them."""

import pathlib
from collections.abc import Mapping

from ..processes import Process
from ..settings import Sections, common, service_user
from .base import Service


class Neutron(Service):
    """Networks, ports, security groups, routers and floating addresses."""

    name = 'neutron'
    requirements = ('neutron',)
    databases = ('neutron',)
    catalog = ('network', '')

    def files(self) -> Mapping[pathlib.Path, Sections]:
        sections = common(
            self.place,
            self.name,
            core_plugin='ml2',
            service_plugins='router',
            auth_strategy='keystone',
            dhcp_agent_notification=False,
            notify_nova_on_port_status_changes=False,
            notify_nova_on_port_data_changes=False,
            api_paste_config=self.etc / 'api-paste.ini',
            rpc_workers=0,
            rpc_state_report_workers=0,
        )
        sections['ml2'] = {
            'type_drivers': 'local,flat,vlan,vxlan',
            'tenant_network_types': 'vxlan',
            'mechanism_drivers': 'kiln',
            'extension_drivers': 'port_security',
        }
        # Each possible number is a row; few rows make a reset fast.
        sections['ml2_type_vxlan'] = {'vni_ranges': '1:2000'}
        sections['ml2_type_flat'] = {'flat_networks': '*'}
        sections['ml2_type_vlan'] = {'network_vlan_ranges': 'physnet1:1:100'}
        sections['quotas'] = {
            'quota_port': 100000,
            'quota_network': 10000,
            'quota_subnet': 10000,
            'quota_security_group': 10000,
            'quota_security_group_rule': 100000,
        }
        sections['nova'] = service_user(self.place, 'nova')
        sections['placement'] = service_user(self.place, 'placement')
        return {self.config: sections}

    def copies(self) -> Mapping[pathlib.Path, pathlib.Path]:
        return {self.etc / 'api-paste.ini': self.venv.file('neutron/api-paste.ini')}

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        manage = (*self.venv.script('neutron-db-manage'), '--config-file', self.config)
        return ((*manage, 'upgrade', 'heads'),)

    def processes(self) -> tuple[Process, ...]:
        # Every build waits for Neutron several times; one worker is the bottleneck.
        files = {'OS_NEUTRON_CONFIG_FILES': self.config.name}
        return (self.api('neutron.wsgi.api', workers=2, environment=files),)
