"""Simulated nodes of the real Ironic, enrolled for the tests and removed after them."""

import secrets
import time

VERSION = {'X-OpenStack-Ironic-API-Version': '1.109'}
#: The property that names the zone of a node: each group of conductors needs a conductor.
ZONE = 'rack'
ZONES = ('kit-rack-a', 'kit-rack-b')
WAIT_S = 600
_STEP_S = 0.1


class Nodes:
    """Requests to Ironic itself, as its operator."""

    def __init__(self, session, url):
        self._session = session
        self.url = url.rstrip('/')

    def ask(self, method, path, *, check=True, **body):
        """Send a request; return the JSON of the answer."""
        answer = self._session.request(
            f'{self.url}/v1{path}', method, headers=VERSION, raise_exc=False, **body
        )
        if check and answer.status_code >= 300:
            raise AssertionError(f'{method} {path}: {answer.status_code} {answer.text}')
        return answer.json() if answer.content else {}

    def of(self, resource_class, query=''):
        """Return the nodes of a resource class."""
        fields = 'uuid,name,provision_state,power_state,instance_uuid,reservation'
        path = f'/nodes?resource_class={resource_class}&limit=1000&fields={fields}{query}'
        return self.ask('GET', path)['nodes']

    def until(self, look):
        """Wait until something is so, and return it."""
        end = time.monotonic() + WAIT_S
        while not (found := look()):
            if time.monotonic() > end:
                raise AssertionError('it did not come in time')
            time.sleep(_STEP_S)
        return found

    def provision(self, node, target, **more):
        self.ask('PUT', f'/nodes/{node}/states/provision', json={'target': target, **more})

    def power(self, node, target):
        self.ask('PUT', f'/nodes/{node}/states/power', json={'target': target})

    def enrol(self, resource_class, count, **given):
        """Enrol nodes of a class, and wait until all are available and powered on."""
        ids = [self._create(resource_class, at, **given) for at in range(count)]
        self._all_to(ids, resource_class, 'manage', 'manageable')
        # Ironic claims no node whose power state is not known.
        for node in ids:
            self.power(node, 'power on')
        self._until_all(resource_class, 'power_state', 'power on')
        self._all_to(ids, resource_class, 'provide', 'available')
        return ids

    def set(self, node, **facts):
        """Change facts of a node once it is not in use."""
        at = f'/nodes/{node}?fields=provision_state,reservation'
        free = {'provision_state': 'available', 'reservation': None}
        self.until(lambda: self.ask('GET', at).items() >= free.items())
        body = [{'op': 'add', 'path': f'/{name}', 'value': one} for name, one in facts.items()]
        self.ask('PATCH', f'/nodes/{node}', json=body)

    def connect(self, ids, count):
        """Give nodes ports of their own, to which ports of Neutron can be attached."""
        for node in ids:
            for _ in range(count):
                mac = ':'.join(f'{byte:02x}' for byte in (0x52, 0x54, *secrets.token_bytes(4)))
                self.ask('POST', '/ports', json={'node_uuid': node, 'address': mac})

    def enrol_redfish(self, resource_class, url, systems):
        """Enrol nodes whose controllers speak Redfish, and which boot from an ISO."""
        interfaces = dict.fromkeys(('management', 'power'), 'redfish')
        interfaces |= {'boot': 'redfish-virtual-media', 'deploy': 'ramdisk'}
        interfaces |= {'bios': 'no-bios', 'inspect': 'no-inspect', 'raid': 'no-raid'}
        more = {f'{kind}_interface': name for kind, name in interfaces.items()}
        infos = [{'redfish_address': url, 'redfish_system_id': one} for one in systems]
        ids = [
            self._create(resource_class, at, driver='redfish', driver_info=info, **more)
            for at, info in enumerate(infos)
        ]
        self._all_to(ids, resource_class, 'manage', 'manageable')
        self._all_to(ids, resource_class, 'provide', 'available')

    def _all_to(self, ids, resource_class, target, state):
        for node in ids:
            self.provision(node, target)
        self._until_all(resource_class, 'provision_state', state)

    def _until_all(self, resource_class, field, value):
        self.until(lambda: {one[field] for one in self.of(resource_class)} == {value})

    def _create(self, resource_class, at, **given):
        mac = f'52:54:00:00:00:{at:02x}'
        body = {
            'driver': 'fake-hardware',
            'name': f'{resource_class}-{at}',
            'resource_class': resource_class,
            'driver_info': {'deploy_kernel': 'file:///k', 'deploy_ramdisk': 'file:///r'},
            'properties': {ZONE: ZONES[at % 2], 'local_gb': 40},
            'network_data': _network_data(mac, f'192.0.2.{at + 1}'),
            **{f'{kind}_interface': 'fake' for kind in ('boot', 'management', 'power')},
            **given,
        }
        return self.ask('POST', '/nodes', json=body)['uuid']

    def take_back(self, resource_class):
        """Undeploy what nobody has claimed, and wait until all nodes of a class are free."""
        for one in self.of(resource_class, '&associated=true'):
            if one['provision_state'] == 'active':
                self.provision(one['uuid'], 'deleted')
        self.until_free(resource_class)

    def until_free(self, resource_class):
        """Wait until no node of a class is in use, or still cleaned after an earlier test."""
        free = {'provision_state': 'available', 'reservation': None, 'instance_uuid': None}
        self.until(lambda: all(one.items() >= free.items() for one in self.of(resource_class)))

    def switch_on(self, resource_class):
        """Switch all free nodes on: the deploy of a simulated node does not."""
        off = [
            one['uuid']
            for one in self.of(resource_class, '&provision_state=available&associated=false')
            if one['power_state'] != 'power on'
        ]
        for node in off:
            self.power(node, 'power on')
        for node in off:
            self.until(lambda at=node: self.power_of(at) == 'power on')

    def power_of(self, node):
        return self.ask('GET', f'/nodes/{node}?fields=power_state')['power_state']

    def remove(self, resource_class):
        for node in self.of(resource_class):
            at = f'/nodes/{node["uuid"]}'
            self.ask(
                'PUT', f'{at}/maintenance', json={'reason': 'the tests are over'}, check=False
            )
            self.ask('DELETE', at, check=False)


def _network_data(mac, address):
    network = {
        'id': 'first', 'type': 'ipv4', 'link': 'one', 'ip_address': address,
        'netmask': '255.255.255.0', 'network_id': 'first', 'routes': [],
    }  # fmt: skip
    links = [{'id': 'one', 'type': 'phy', 'ethernet_mac_address': mac}]
    return {'links': links, 'networks': [network], 'services': []}
