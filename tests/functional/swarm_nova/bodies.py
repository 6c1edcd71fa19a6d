"""Containers that run as the servers of a Nova with a fake hypervisor.

The fake hypervisor of the development cloud keeps records of guests and runs none. This
module does the work of the hypervisor, and none of the work of kiln or Nova: each server
that Nova reports as ACTIVE gets a machine, which boots with exactly the data that Nova has
for the server: the user data and the host name, laid out as on its config drive, and the
address that Neutron gave to its port. The machine of a stopped server is off, the machine
of a rebooted server boots again, and the machine of a deleted server is removed with its
disk.

A machine is a container with systemd, cloud-init and an engine of its own.
"""

import base64
import json
import threading

from docker.types import EndpointConfig

from tests.functional.engines import packed

LOOK_S = 0.5
SERVER = 'kiln-tests.server'
#: Where cloud-init looks for the unpacked content of a config drive.
DRIVE = 'var/lib/cloud/seed/config_drive/openstack/latest'
#: The configuration in cloud images that names the data sources of their guests.
SOURCES = 'etc/cloud/cloud.cfg.d/95_cloud.cfg'
MICROVERSION = {'OpenStack-API-Version': 'compute 2.96'}


class Cloud:
    """Nova and Neutron, used as an administrator."""

    def __init__(self, session):
        self._session = session

    def get(self, service, path, **query):
        return self._session.get(
            path, endpoint_filter={'service_type': service}, params=query, headers=MICROVERSION
        ).json()

    def servers(self):
        found = self.get('compute', '/servers/detail', all_tenants=1)['servers']
        return {one['id']: one for one in found}

    def reboots(self, server_id):
        """Return the ids of the reboot requests of a server."""
        found = self.get('compute', f'/servers/{server_id}/os-instance-actions')
        return {one['request_id'] for one in found['instanceActions'] if one['action'] == 'reboot'}

    def delete_server(self, server_id):
        self._session.delete(f'/servers/{server_id}', endpoint_filter={'service_type': 'compute'})

    def stop_server(self, server_id):
        endpoint = {'service_type': 'compute'}
        self._session.post(
            f'/servers/{server_id}/action', endpoint_filter=endpoint, json={'os-stop': None}
        )

    def ports(self, **query):
        return self.get('network', '/v2.0/ports', **query)['ports']

    def add_image(self, name, **properties):
        """Add an image to Glance; no hypervisor reads its content."""
        body = {'name': name, 'disk_format': 'raw', 'container_format': 'bare',
                'visibility': 'public', **properties}  # fmt: skip
        endpoint = {'service_type': 'image'}
        image = self._session.post('/v2/images', endpoint_filter=endpoint, json=body).json()
        self._session.put(
            f'/v2/images/{image["id"]}/file', endpoint_filter=endpoint, data=bytes(1024),
            headers={'Content-Type': 'application/octet-stream'},
        )  # fmt: skip

    def make(self, what, **body):
        """Create an object in Neutron; return its id."""
        answer = self._session.post(
            f'/v2.0/{what}s', endpoint_filter={'service_type': 'network'}, json={what: body}
        )
        return answer.json()[what]['id']


class Wire:
    """A network of Neutron, and the network of the engine that carries it."""

    def __init__(self, cloud, engine, name):
        self.carrier = engine.networks.list(names=[name])[0]
        # The engine has chosen this subnet, because it knows the free addresses of this machine.
        subnet = self.carrier.attrs['IPAM']['Config'][0]['Subnet']
        self.id = cloud.make('network', name=name, shared=True)
        # The network has IPv6 and IPv4 addresses; the machines use only IPv4.
        cloud.make('subnet', network_id=self.id, ip_version=6, cidr='fd00:6b69:6c6e::/64')
        cloud.make('subnet', network_id=self.id, ip_version=4, cidr=subnet)


class Bodies(threading.Thread):
    """Polls Nova and keeps the machines in the state that Nova reports."""

    def __init__(self, cloud, engine, wire, image):
        super().__init__(daemon=True)
        self._cloud, self._engine, self._wire, self._image = cloud, engine, wire, image
        self._over = threading.Event()
        # By server id: the last state that Nova reported, and the reboots of its machine.
        self._seen, self._reboots = {}, {}
        self.error = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()
        for machine in self.machines().values():
            machine.remove(force=True, v=True)
        if self.error is not None:
            raise self.error

    def run(self):
        try:
            while not self._over.wait(LOOK_S):
                self.look()
        # The error is raised at the end, so that a caller gets the reason of missing machines.
        except Exception as exc:
            self.error = exc

    def machines(self):
        """Return the existing machines, by the ids of their servers."""
        mine = {'label': SERVER}
        # The list must not fail if a machine is removed meanwhile.
        found = self._engine.containers.list(all=True, filters=mine, ignore_removed=True)
        return {one.labels[SERVER]: one for one in found}

    def look(self):
        servers, machines = self._cloud.servers(), self.machines()
        for server_id in machines.keys() - servers.keys():
            machines[server_id].remove(force=True, v=True)
        for server_id, server in servers.items():
            if server_id in machines:
                self._follow(server, machines[server_id])
            elif server['OS-EXT-STS:vm_state'] == 'active':
                self._embody(server)

    def _follow(self, server, machine):
        """Start, stop or reboot a machine, like its server."""
        seen = _seen(server)
        # While a task of Nova runs, the next state of the machine is unknown.
        if server['OS-EXT-STS:task_state'] or seen == self._seen[server['id']]:
            return
        reboots = self._cloud.reboots(server['id'])
        if server['OS-EXT-STS:vm_state'] == 'stopped':
            machine.stop(timeout=0)
        elif reboots != self._reboots[server['id']]:
            machine.restart(timeout=5)
        else:
            machine.start()
        self._seen[server['id']], self._reboots[server['id']] = seen, reboots

    def _embody(self, server):
        ports = self._cloud.ports(device_id=server['id'])
        if not ports:
            # The server was deleted since it was listed.
            return
        (port,) = ports
        (address,) = (ip for one in port['fixed_ips'] if ':' not in (ip := one['ip_address']))
        endpoint = EndpointConfig('1.41', ipv4_address=address)
        machine = self._engine.containers.create(
            self._image, '/sbin/init', hostname=server['OS-EXT-SRV-ATTR:hostname'],
            labels={SERVER: server['id']}, mac_address=port['mac_address'],
            network=self._wire.carrier.name,
            networking_config={self._wire.carrier.name: endpoint},
            # Needed by systemd in a container, and by the engine in it.
            environment={'container': 'docker'}, privileged=True,
            stop_signal='SIGRTMIN+3', tmpfs={'/run': '', '/run/lock': ''}, tty=True,
            volumes=['/var/lib/docker'],
        )  # fmt: skip
        machine.put_archive('/', _drive(server))
        machine.start()
        self._seen[server['id']], self._reboots[server['id']] = _seen(server), set()


def _seen(server):
    return server['updated'], server['OS-EXT-STS:vm_state']


def _drive(server):
    """Return the config drive of a machine's first start, as an archive."""
    meta = {
        'uuid': server['id'], 'name': server['name'], 'meta': server['metadata'],
        'hostname': server['OS-EXT-SRV-ATTR:hostname'], 'launch_index': 0,
        'availability_zone': server['OS-EXT-AZ:availability_zone'],
    }  # fmt: skip
    files = {
        SOURCES: b'datasource_list: [ConfigDrive, None]\n',
        f'{DRIVE}/meta_data.json': json.dumps(meta).encode(),
        f'{DRIVE}/user_data': base64.b64decode(server['OS-EXT-SRV-ATTR:user_data']),
    }
    return packed(files, 0o600)
