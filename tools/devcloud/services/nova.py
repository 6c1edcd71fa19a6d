"""Nova with its fake hypervisor, controlled by a server's metadata."""

import pathlib
from collections.abc import Mapping

from ..backends import Database
from ..errors import CloudError
from ..packages import run
from ..place import HOST
from ..processes import Process, Stage
from ..settings import Sections, common, database_url, service_user
from .base import Service

FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
    'SameHostFilter',
    'DifferentHostFilter',
)


# Logged by a process that has joined.
JOINED = 'Join ServiceGroup membership'
MAPPING_TRIES = 5


class Nova(Service):
    """API, conductor, scheduler, and one compute for each host."""

    name = 'nova'
    requirements = ('nova', 'python-novaclient', 'python-openstackclient')
    databases = ('nova', 'nova_api', 'nova_cell0')
    catalog = ('compute', '/v2.1')
    living_tables = ('nova.services',)

    def hosts(self) -> tuple[str, ...]:
        """Return the names of the hosts."""
        return tuple(f'cmp{number}' for number in range(1, self.wishes.hosts + 1))

    def files(self) -> Mapping[pathlib.Path, Sections]:
        sections = self._sections()
        # A compute that finds a database's address in its file complains.
        without = {key: value for key, value in sections.items() if 'database' not in key}
        files = {self.config: sections}
        for host in self.hosts():
            state = self.data / host
            files[self.etc / f'{host}.conf'] = {
                **without,
                'DEFAULT': {**sections['DEFAULT'], 'host': host, 'state_path': state},
                'oslo_concurrency': {'lock_path': state / 'lock'},
            }
        return files

    def _sections(self) -> Sections:
        place = self.place
        sections = common(
            place,
            self.name,
            host='kiln-ctl',
            my_ip=HOST,
            compute_driver='kiln_virt.KilnFakeDriver',
            cpu_allocation_ratio=16.0,
            ram_allocation_ratio=1.0,
            reserved_host_memory_mb=0,
            rpc_response_timeout=120,
            long_rpc_timeout=300,
            # Only requests of a test change a server; periodic tasks are off.
            sync_power_state_interval=-1,
            heal_instance_info_cache_interval=-1,
            running_deleted_instance_action='noop',
            update_resources_interval=300,
            max_concurrent_builds=0,
            report_interval=30,
            service_down_time=120,
        )
        # Processes log that they have joined only at this level.
        sections['DEFAULT']['default_log_levels'] += ',nova.service=DEBUG'
        sections['api_database'] = {
            **sections['database'],
            'connection': database_url(place, 'nova_api'),
        }
        sections['api'] = {'auth_strategy': 'keystone', 'max_limit': 1000}
        sections['quota'] = {
            'instances': 100000,
            'cores': 1000000,
            'ram': -1,
            'server_groups': 1000,
            'server_group_members': 1000,
            'key_pairs': 1000,
        }
        sections['scheduler'] = {
            'workers': 1,
            'discover_hosts_in_cells_interval': 30,
            'max_attempts': 3,
        }
        sections['filter_scheduler'] = {
            'enabled_filters': ','.join(FILTERS),
            'track_instance_changes': False,
            'shuffle_best_same_weighed_hosts': True,
        }
        sections['conductor'] = {'workers': 1}
        sections['placement'] = service_user(place, 'placement')
        sections['neutron'] = {
            **service_user(place, 'neutron'),
            'default_floating_pool': 'ext',
        }
        sections['glance'] = {'api_servers': place.url('glance'), 'num_retries': 1}
        sections['service_user'] = {
            **service_user(place, 'nova'),
            'send_service_user_token': True,
        }
        sections['keystone'] = service_user(place, 'nova')
        sections['vnc'] = {
            'enabled': True,
            'server_listen': HOST,
            'novncproxy_base_url': f'{place.url("novnc")}/vnc_auto.html',
        }
        # No agent sends the event that a live migration would wait for.
        sections['compute'] = {'live_migration_wait_for_vif_plug': False}
        sections['wsgi'] = {'api_paste_config': self.etc / 'api-paste.ini'}
        return sections

    def copies(self) -> Mapping[pathlib.Path, pathlib.Path]:
        return {self.etc / 'api-paste.ini': self.venv.file('nova/api-paste.ini')}

    def folders(self) -> tuple[pathlib.Path, ...]:
        return (self.data, *(self.data / host for host in self.hosts()))

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        manage = (*self.venv.script('nova-manage'), '--config-file', self.config)
        cell0 = database_url(self.place, 'nova_cell0')
        return (
            (*manage, 'api_db', 'sync'),
            (*manage, 'cell_v2', 'map_cell0', '--database_connection', cell0),
            (*manage, 'cell_v2', 'create_cell', '--name', 'cell1'),
            (*manage, 'db', 'sync'),
        )

    def settle(self, database: Database) -> None:
        self._map_hosts(database)
        # After a pause Nova regards its hosts as dead until their first report,
        # five seconds after they have joined.
        hosts = ', '.join(f"'{host}'" for host in ('kiln-ctl', *self.hosts()))
        database.query(
            'update nova.services set disabled = 0, disabled_reason = null, forced_down = 0, '
            f'updated_at = utc_timestamp(), last_seen_up = utc_timestamp() where host in ({hosts})'
        )

    def _map_hosts(self, database: Database) -> None:
        manage = (*self.venv.script('nova-manage'), '--config-file', self.config)
        for left in range(MAPPING_TRIES - 1, -1, -1):
            if database.count('select count(*) from nova_api.host_mappings') >= len(self.hosts()):
                return
            try:
                run(self.place, self.name, *manage, 'cell_v2', 'discover_hosts', '--by-service')
            except CloudError:
                # The scheduler maps hosts too, and whichever of the two comes second fails.
                if not left:
                    raise

    def processes(self) -> tuple[Process, ...]:
        computes = [
            self.daemon(
                f'nova-compute-{host}',
                'nova-compute',
                self.etc / f'{host}.conf',
                Stage.COMPUTE,
                ready_text=JOINED,
            )
            for host in self.hosts()
        ]
        return (
            self.api('nova.wsgi.osapi_compute', workers=2),
            self.daemon('nova-conductor', 'nova-conductor', self.config, ready_text=JOINED),
            self.daemon('nova-scheduler', 'nova-scheduler', self.config, ready_text=JOINED),
            *computes,
        )
