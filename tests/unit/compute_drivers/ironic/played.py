"""A played Ironic: real HTTP on the loopback, nodes and allocations in memory.

Its answers have the form of the real one's, as the functional tests saw them. Whatever takes
time there is done here as soon as the node is read again, unless the test holds it.
"""

import base64
import copy
import datetime
import http.server
import itertools
import json
import re
import threading
import urllib.parse
import uuid

from kiln.clock import SYSTEM_CLOCK

CLASS, TRAIT = 'kit', 'CUSTOM_KIT'
#: The order of what follows when a node is read.
_NEXT = {'deploying': 'active', 'deleting': 'cleaning', 'cleaning': 'available'}
_USER, _WORD = 'kiln', 'secret'


class Refused(Exception):
    """An answer of Ironic that refuses a request."""

    def __init__(self, status, said):
        super().__init__(said)
        self.status = status


class PlayedIronic:
    """Plays Ironic; tests change ``nodes``, and let requests fail by ``fail``."""

    def __init__(self, nodes=24, clock=SYSTEM_CLOCK, versions=('1.1', '1.115'), zones=2):
        self.clock, self.versions = clock, versions
        self.lock = threading.RLock()
        self.allocations, self.histories, self.asked, self.faults = {}, {}, [], []
        self.nodes = {node['uuid']: node for node in map(_node, range(nodes), [zones] * nodes)}
        #: Uuids of nodes that a task holds, and of nodes at which nothing proceeds.
        self.locked, self.held = set(), set()
        #: Text with which the next deployments fail; or True for no deployment that ends.
        self.deploy_fault, self.stalls = None, 0
        #: Config drives by the uuid of their node.
        self.drives = {}
        self.basic = False
        #: Ports and networks of Neutron.
        self.ports, self.networks, self._hosts = {}, {'net-1', 'net-2'}, itertools.count(10)
        #: Claims that find no node, and True if claims are never processed.
        self.full = 0
        self.idle = False

    # ---- HTTP ------------------------------------------------------------

    def __enter__(self):
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={'poll_interval': 0.01}, daemon=True
        )
        self._thread.start()
        self.url = f'http://127.0.0.1:{self._server.server_port}'
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self):
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            disable_nagle_algorithm = True
            wbufsize = -1

            def answer(self):
                url = urllib.parse.urlsplit(self.path)
                size = int(self.headers.get('Content-Length', 0))
                body = json.loads(self.rfile.read(size) or 'null')
                query = dict(urllib.parse.parse_qsl(url.query))
                status, headers, found = service.answer(
                    self.command, url.path, query, body, self.headers
                )
                content = b'' if found is None else found
                if not isinstance(content, bytes):
                    content = json.dumps(found).encode()
                    headers = {'Content-Type': 'application/json', **headers}
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Length', str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def date_time_string(self, timestamp=None):
                now = service.clock.time() if timestamp is None else timestamp
                return super().date_time_string(now)

            def log_message(self, *args):
                pass

        return Handler

    def fail(self, method, path, status, said='it is broken', *, after=False, times=1, **more):
        """Let the next requests of a path fail; ``after`` they have had their effect."""
        self.faults.append([times, method, re.compile(path), status, said, after, more])

    def fail_html(self, method, path, status):
        """Let the next request be answered by something in front of Ironic."""
        self.fail(method, path, status, None)

    def count(self, method, path=''):
        """Return how many such requests came."""
        return sum(one[0] == method and re.search(path, one[1]) is not None for one in self.asked)

    def answer(self, method, path, query, body, headers):
        with self.lock:
            self.asked.append((method, path, query, body))
            low, high = self.versions
            ours = {
                'X-OpenStack-Ironic-API-Minimum-Version': low,
                'X-OpenStack-Ironic-API-Maximum-Version': high,
            }
            if self.basic and headers.get('Authorization') != _basic():
                return 401, {'WWW-Authenticate': 'Basic'}, _fault('Incorrect login')
            fault = self._fault_of(method, path)
            if fault is not None and not fault[5]:
                return _failed(fault, ours)
            status, found = self._effect(method, path, query, body)
            if fault is not None:
                return _failed(fault, ours)
            return status, ours, copy.deepcopy(found)

    def _fault_of(self, method, path):
        for fault in self.faults:
            if fault[0] and fault[1] == method and fault[2].search(path):
                fault[0] -= 1
                return fault
        return None

    def _effect(self, method, path, query, body):
        parts = path.strip('/').split('/')[1:]
        try:
            if path.startswith('/v2.0/ports'):
                return self._neutron(method, parts[1:], query, body)
            if not path.startswith('/v1'):
                return 404, _titled()
            if not parts:
                return 200, {'id': 'v1'}
            kind, *rest = parts
            act = getattr(self, f'{method.lower()}_{kind}', None)
            if act is None:
                return 404, _titled()
            return act(rest, query, body)
        except Refused as exc:
            return exc.status, _fault(str(exc))

    # ---- allocations -----------------------------------------------------

    def post_allocations(self, rest, query, body):
        if body['uuid'] in self.allocations:
            raise Refused(409, f'An allocation with UUID {body["uuid"]} already exists.')
        made = {
            'state': 'allocating', 'node_uuid': None, 'last_error': None, 'owner': None,
            'traits': [], 'candidate_nodes': [], 'created_at': self._now(), **body,
        }  # fmt: skip
        self.allocations[body['uuid']] = made
        before = copy.deepcopy(made)
        self._allocate(made)
        return 201, before

    def _allocate(self, made):
        if self.idle:
            return
        free = [node for node in self.nodes.values() if _fits(node, made)]
        if self.full:
            self.full -= 1
            free = []
        if not free:
            made['state'] = 'error'
            made['last_error'] = (
                f'Failed to process allocation {made["uuid"]}: no available nodes match the '
                f'resource class {made["resource_class"]}'
            )
            return
        made['state'], made['node_uuid'] = 'active', free[0]['uuid']
        free[0]['instance_uuid'] = made['uuid']

    def get_allocations(self, rest, query, body):
        if rest:
            return 200, self._allocation(rest[0])
        return 200, self._page('allocations', list(self.allocations.values()), query)

    def patch_allocations(self, rest, query, body):
        found = self._allocation(rest[0])
        _apply(found, body)
        return 200, found

    def delete_allocations(self, rest, query, body):
        found = self._allocation(rest[0])
        if node := self.nodes.get(found['node_uuid']):
            self._check_lock(node)
            if not node['maintenance'] and node['provision_state'] not in ('available', 'error'):
                raise Refused(409, f'Cannot remove allocation {found["uuid"]}')
        self._end(found)
        return 204, None

    def _allocation(self, ident):
        if ident not in self.allocations:
            raise Refused(404, f'Allocation {ident} could not be found.')
        return self.allocations[ident]

    def _end(self, allocation):
        self.allocations.pop(allocation['uuid'], None)
        if node := self.nodes.get(allocation['node_uuid']):
            node['instance_uuid'] = None

    # ---- nodes -----------------------------------------------------------

    def get_nodes(self, rest, query, body):
        if not rest:
            found = [self._step(node) for node in self.nodes.values()]
            return 200, self._page('nodes', [one for one in found if _passes(one, query)], query)
        if rest[1:] == ['vifs']:
            return 200, {'vifs': [{'id': one} for one in self._one(rest[0])['vifs']]}
        if rest[1:] == ['ports']:
            cards = range(self._one(rest[0])['cards'])
            return 200, {'ports': [{'address': f'52:54:00:00:00:{nth:02x}'} for nth in cards]}
        if rest[1:] == ['history']:
            events = self.histories.get(rest[0], [])
            return 200, {'history': events[:: -1 if query.get('sort_dir') == 'desc' else 1]}
        return 200, _of_fields(self._step(self._one(rest[0])), query)

    def patch_nodes(self, rest, query, body):
        node = self._one(rest[0])
        self._check_lock(node)
        _apply(node, body)
        return 200, node

    def put_nodes(self, rest, query, body):
        node = self._one(rest[0])
        if rest[1] == 'maintenance':
            node['maintenance'], node['maintenance_reason'] = True, body['reason']
            return 202, None
        self._check_lock(node)
        getattr(self, f'_{rest[2]}')(node, body)
        return 202, None

    def delete_nodes(self, rest, query, body):
        node = self._one(rest[0])
        if rest[1] == 'vifs':
            return self._unplug(node, rest[2])
        node['maintenance'], node['maintenance_reason'] = False, None
        return 202, None

    def _power(self, node, body):
        target = body['target']
        if target == 'soft rebooting' and 'soft' not in node['driver']:
            said = f'The driver {node["driver"]} does not support the power state, {target}'
            raise Refused(400, said)
        node['target_power_state'] = 'power off' if target == 'power off' else 'power on'
        node['last_power_target'] = target

    def _provision(self, node, body):
        target, at = body['target'], node['provision_state']
        allowed = {
            'active': ('available',), 'rebuild': ('active', 'deploy failed', 'error'),
            'deleted': ('active', 'deploy failed', 'error', 'wait call-back', 'deploy hold'),
            'manage': ('clean failed', 'enroll', 'available'), 'provide': ('manageable',),
        }  # fmt: skip
        if at not in allowed[target]:
            raise Refused(
                400, f'The requested action "{target}" can not be performed on node '
                f'"{node["uuid"]}" while it is in state "{at}".'
            )  # fmt: skip
        if target == 'active':
            if not node['instance_info'].get('image_source'):
                raise Refused(400, 'Failed to validate deploy: image_source is missing')
            self.drives[node['uuid']] = body['configdrive']
        if target in ('active', 'rebuild'):
            node['provision_state'] = 'deploying'
            if self.stalls:
                self.stalls -= 1
                self.held.add(node['uuid'])
        elif target == 'deleted':
            node['provision_state'] = 'deleting'
            # The real one does it a moment later, before the cleaning begins.
            self.held.discard(node['uuid'])
        else:
            node['provision_state'] = 'manageable' if target == 'manage' else 'cleaning'

    def _step(self, node):
        """Let a node proceed, as time does."""
        if node['uuid'] in self.held:
            return node
        at = node['provision_state']
        if at == 'deploying' and self.deploy_fault is not None:
            node['provision_state'], node['last_error'] = 'deploy failed', self.deploy_fault
            self.deploy_fault = None
            return node
        node['provision_state'] = _NEXT.get(at, at)
        if at == 'deploying':
            node['power_state'] = 'power on'
        if at == 'deleting':
            node['instance_info'], node['vifs'] = {}, []
            if found := self.allocations.get(node['instance_uuid']):
                self._end(found)
            node['instance_uuid'] = None
        if node['target_power_state']:
            node['power_state'], node['target_power_state'] = node['target_power_state'], None
        return node

    def _one(self, ident):
        if ident not in self.nodes:
            raise Refused(404, f'Node {ident} could not be found.')
        return self.nodes[ident]

    def _check_lock(self, node):
        if node['uuid'] in self.locked:
            said = (
                f'Node {node["uuid"]} is locked by host kiln-ctl, please retry after the current'
            )
            raise Refused(409, said)

    # ---- Neutron, and the ports that it has on nodes -------------------------

    def _neutron(self, method, rest, query, body):
        if rest and rest[0] not in self.ports:
            return 404, _neutron_fault(f'Port {rest[0]} could not be found.')
        if method == 'POST':
            wanted = body['port']
            if wanted['network_id'] not in self.networks:
                return 404, _neutron_fault(f'Network {wanted["network_id"]} could not be found.')
            return self._new_port(wanted)
        if method == 'PUT':
            self.ports[rest[0]] |= body['port']
        if method == 'DELETE':
            del self.ports[rest[0]]
            return 204, None
        if rest:
            return 200, {'port': self.ports[rest[0]]}
        found = [one for one in self.ports.values() if query.items() <= one.items()]
        return 200, {'ports': found}

    def _new_port(self, wanted):
        taken = {one['ip_address'] for port in self.ports.values() for one in port['fixed_ips']}
        fixed = wanted.get('fixed_ips')
        address = fixed[0]['ip_address'] if fixed else f'198.51.100.{next(self._hosts)}'
        if address in taken:
            return 409, _neutron_fault(f'IP address {address} already allocated in subnet s-1')
        if not address.startswith('198.51.100.'):
            return 400, _neutron_fault(f'IP address {address} is not valid for the network')
        port = {
            'id': str(uuid.uuid4()), 'device_id': '', 'description': '', 'name': '',
            'mac_address': None, 'created_at': self._now(), **wanted,
            'fixed_ips': [{'ip_address': address, 'subnet_id': 's-1'}],
        }  # fmt: skip
        self.ports[port['id']] = port
        return 201, {'port': port}

    def post_nodes(self, rest, query, body):
        node = self._one(rest[0])
        self._check_lock(node)
        if len(node['vifs']) >= node['cards']:
            raise Refused(400, f'There are no free physical ports on node {node["uuid"]}')
        node['vifs'].append(body['id'])
        return 204, None

    def _unplug(self, node, vif):
        self._check_lock(node)
        if vif not in node['vifs']:
            raise Refused(400, f'VIF {vif} is not attached to node {node["uuid"]}')
        node['vifs'].remove(vif)
        return 204, None

    # ---- lists -----------------------------------------------------------

    def _page(self, what, rows, query):
        if marker := query.get('marker'):
            every = list(self.nodes if what == 'nodes' else self.allocations)
            if marker not in every:
                raise Refused(404, f'{what} {marker} could not be found.')
            later = set(every[every.index(marker) + 1 :])
            rows = [row for row in rows if row['uuid'] in later]
        limit = int(query.get('limit', 1000))
        page = rows[:limit]
        answer = {what: [_of_fields(row, query) for row in page]}
        if len(rows) > limit:
            answer['next'] = f'{self.url}/v1/{what}?marker={page[-1]["uuid"]}'
        return answer

    def _now(self):
        return datetime.datetime.fromtimestamp(int(self.clock.time()), datetime.UTC).isoformat()


def _node(nth, zones):
    return {
        'uuid': str(uuid.UUID(int=nth + 1)), 'name': f'node-{nth}', 'driver': 'redfish-soft',
        'instance_uuid': None, 'provision_state': 'available', 'target_provision_state': None,
        'power_state': 'power on', 'target_power_state': None, 'maintenance': False,
        'maintenance_reason': None, 'fault': None, 'last_error': None, 'instance_info': {},
        'resource_class': CLASS, 'traits': [TRAIT] if nth % 2 else [],
        'conductor_group': f'az{nth % zones}' if zones else '', 'properties': {},
        'extra': {'addresses': [f'192.0.2.{nth + 1}']}, 'vifs': [], 'cards': 8,
    }  # fmt: skip


def _fits(node, wanted):
    return (
        node['provision_state'] == 'available'
        and node['instance_uuid'] is None
        and not node['maintenance']
        and node['power_state'] is not None
        and node['resource_class'] == wanted['resource_class']
        and set(node['traits']).issuperset(wanted['traits'])
        and (not wanted['candidate_nodes'] or node['uuid'] in wanted['candidate_nodes'])
    )


def _passes(node, query):
    for name in ('provision_state', 'resource_class', 'conductor_group'):
        if name in query and node[name] != query[name]:
            return False
    for name, has in (
        ('associated', node['instance_uuid'] is not None), ('maintenance', node['maintenance']),
    ):  # fmt: skip
        if name in query and (query[name] == 'true') != has:
            return False
    return True


def _of_fields(row, query):
    fields = query.get('fields')
    return {name: row.get(name) for name in fields.split(',')} if fields else row


def _apply(row, patch):
    for change in patch:
        *path, last = change['path'].strip('/').split('/')
        if isinstance(change.get('value'), list) and path[:1] == ['extra']:
            raise Refused(400, 'Schema error: a list is not of these types.')
        place = row
        for part in path:
            place = place[part]
        if change['op'] == 'remove':
            del place[last]
        else:
            place[last] = change['value']


def _fault(said):
    fault = {'faultcode': 'Client', 'faultstring': said, 'debuginfo': None}
    return {'error_message': json.dumps(fault)}


def _neutron_fault(said):
    return {'NeutronError': {'type': 'x', 'message': said, 'detail': ''}}


def _titled():
    return {'error_message': json.dumps({'code': 404, 'title': 'Not Found', 'description': ''})}


def _failed(fault, headers):
    _, _, _, status, said, _, more = fault
    headers = {**headers, **more}
    if said is None:
        return status, headers, b'<html>no</html>'
    return status, headers, _fault(said)


def _basic():
    return 'Basic ' + base64.b64encode(f'{_USER}:{_WORD}'.encode()).decode()
