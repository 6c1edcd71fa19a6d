"""Bodies for the servers of a Nova whose hypervisor only pretends.

The fake hypervisor of the development cloud keeps records of guests and runs none. So
what a hypervisor does is done here, and nothing of what kiln or Nova do: each server that
Nova calls ACTIVE gets a machine, which boots with exactly what Nova has for it. That is
the user data and the host name that Nova keeps, laid out as on its config drive, and the
address that Neutron gave to its port. The machine of a server that is stopped is off, that
of one that was rebooted boots again, and that of one that is gone is removed with its disk.

A machine is a container with systemd, cloud-init and an engine of its own.
"""

import base64
import json
import threading

from docker.types import EndpointConfig

from tests.functional.engines import packed

LOOK_S = 0.5
SERVER = 'kiln-tests.server'
#: What a config drive has, and where cloud-init looks for one that was unpacked.
DRIVE = 'var/lib/cloud/seed/config_drive/openstack/latest'
#: What images of a cloud say: where its guests are told what they are to be.
SOURCES = 'etc/cloud/cloud.cfg.d/95_cloud.cfg'
MICROVERSION = {'OpenStack-API-Version': 'compute 2.96'}


class Cloud:
    """Nova and Neutron, as an administrator sees them."""

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
        """Return which reboots a server was asked for."""
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
        """Have Glance know an image; what is in it no hypervisor reads."""
        body = {'name': name, 'disk_format': 'raw', 'container_format': 'bare',
                'visibility': 'public', **properties}  # fmt: skip
        endpoint = {'service_type': 'image'}
        image = self._session.post('/v2/images', endpoint_filter=endpoint, json=body).json()
        self._session.put(
            f'/v2/images/{image["id"]}/file', endpoint_filter=endpoint, data=bytes(1024),
            headers={'Content-Type': 'application/octet-stream'},
        )  # fmt: skip

    def make(self, what, **body):
        """Make something of Neutron's; return its id."""
        answer = self._session.post(
            f'/v2.0/{what}s', endpoint_filter={'service_type': 'network'}, json={what: body}
        )
        return answer.json()[what]['id']


class Wire:
    """A network of Neutron's, and the one of an engine that carries it."""

    def __init__(self, cloud, engine, name):
        self.carrier = engine.networks.list(names=[name])[0]
        # The engine has chosen it, for it knows which addresses are free on this machine.
        subnet = self.carrier.attrs['IPAM']['Config'][0]['Subnet']
        self.id = cloud.make('network', name=name, shared=True)
        # One with both kinds of addresses; the machines have a carrier for the older one.
        cloud.make('subnet', network_id=self.id, ip_version=6, cidr='fd00:6b69:6c6e::/64')
        cloud.make('subnet', network_id=self.id, ip_version=4, cidr=subnet)


class Bodies(threading.Thread):
    """Looks at Nova again and again, and sees to it that machines are as it says."""

    def __init__(self, cloud, engine, wire, image):
        super().__init__(daemon=True)
        self._cloud, self._engine, self._wire, self._image = cloud, engine, wire, image
        self._over = threading.Event()
        # By server: when Nova last wrote of it, and the reboots that its machine has had.
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
        # A caller that waits for machines learns why they are missing, at the end at the latest.
        except Exception as exc:
            self.error = exc

    def machines(self):
        """Return the machines that there are, by the ids of their servers."""
        mine = {'label': SERVER}
        # The others are listed though one goes at this moment.
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
        """Switch a machine on or off, or have it boot again, as its server was."""
        seen = _seen(server)
        # While Nova is at it, it is not said yet what becomes of the machine.
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
            # It went since it was listed.
            return
        (port,) = ports
        (address,) = (ip for one in port['fixed_ips'] if ':' not in (ip := one['ip_address']))
        endpoint = EndpointConfig('1.41', ipv4_address=address)
        machine = self._engine.containers.create(
            self._image, '/sbin/init', hostname=server['OS-EXT-SRV-ATTR:hostname'],
            labels={SERVER: server['id']}, mac_address=port['mac_address'],
            network=self._wire.carrier.name,
            networking_config={self._wire.carrier.name: endpoint},
            # What systemd needs within a container, and an engine within it.
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
    """Return what a machine finds at its first start."""
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
