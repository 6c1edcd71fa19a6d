"""A played Ironic: allocations and nodes of one class, with answers in Ironic's form."""

import json
import re

from tests.unit.compute_drivers.nova.loopback import Loopback

LOWEST, HIGHEST = (f'X-OpenStack-Ironic-API-{end}-Version' for end in ('Minimum', 'Maximum'))
NONE_FREE = 'no available nodes match the resource class bm'


def fault(status, said):
    """Return an error in the form of Ironic."""
    return status, {}, {'error_message': json.dumps({'faultstring': said})}


class PlayedIronic(Loopback):
    """Keeps claims and one node; ``refusals`` has answers of the next requests, by regex."""

    def __init__(self, **node):
        super().__init__()
        self.claims = {}
        self.nodes = [
            {
                'uuid': 'n-1', 'name': 'node-1', 'resource_class': 'bm', 'traits': ['CUSTOM_A'],
                'conductor_group': 'east', 'provision_state': 'available', 'instance_uuid': None,
                'power_state': 'power on', 'properties': {}, 'instance_info': {}, **node,
            }
        ]  # fmt: skip
        self.refusals = []
        #: The ids of the ports of Neutron that are attached, and how many the node can have.
        self.vifs, self.room = [], 2
        #: What the next claims end with, in place of a node.
        self.claim_errors = []

    def answer(self, what, query):
        for at, (pattern, found) in enumerate(self.refusals):
            if re.fullmatch(pattern, what):
                del self.refusals[at]
                return self.encoded(found)
        sent = self.asked[-1][2]
        method, _, path = what.partition(' /v1')
        parts, body = path.strip('/').split('/'), json.loads(sent) if sent else None
        if 'vifs' in parts:
            return self.encoded(self.on_vifs(method, parts[-1], body))
        found = self.found(method, parts, body)
        if user := query.get('instance_uuid'):
            found = {'nodes': [one for one in found['nodes'] if one['instance_uuid'] == user]}
        return self.encoded(found)

    def encoded(self, found):
        self.answers['now'] = found
        return super().answer('now', {})

    def found(self, method, parts, body):
        match method, parts:
            case 'GET', ['']:
                return 200, {LOWEST: '1.1', HIGHEST: '1.115'}, {'id': 'v1'}
            case 'GET', ['allocations']:
                return {'allocations': list(self.claims.values())}
            case 'POST', ['allocations']:
                return self.claim(body)
            case method, ['allocations', name]:
                return self.on_claim(method, name, body)
            case 'GET', ['nodes']:
                return {'nodes': self.nodes}
            case 'GET', ['nodes', _, 'history']:
                return {'history': []}
            case 'GET' | 'PATCH', ['nodes', _]:
                return self.nodes[0]
            case 'PUT', ['nodes', _, 'states', 'provision']:
                return self.provision(body['target'])
            case 'PUT' | 'DELETE', ['nodes', _, *_]:
                return 202, {}, ''
        raise AssertionError(f'{method} {parts}')

    def claim(self, body):
        if self.of_name(body['name']):
            return fault(409, f'An allocation with name {body["name"]} already exists.')
        made = {
            **body, 'state': 'active', 'node_uuid': 'n-1', 'last_error': None,
            'created_at': '2026-11-29T10:00:00+00:00',
        }  # fmt: skip
        if self.claim_errors:
            said = self.claim_errors.pop(0)
            made |= {'state': 'error', 'node_uuid': None, 'last_error': said}
        else:
            self.nodes[0]['instance_uuid'] = made['uuid']
        self.claims[made['uuid']] = made
        if body.get('node') and made['state'] == 'error':
            return fault(500, f'Failed to process allocation: {made["last_error"]}')
        return 201, {}, made

    def of_name(self, name):
        return next(
            (one for one in self.claims.values() if name in (one['name'], one['uuid'])), None
        )

    def on_claim(self, method, name, body):
        found = self.of_name(name)
        if found is None:
            return fault(404, f'Allocation {name} could not be found.')
        if method == 'DELETE':
            del self.claims[found['uuid']]
            if found['state'] != 'error':
                self.nodes[0]['instance_uuid'] = None
            return 204, {}, ''
        for change in body or ():
            _, *way, field = change['path'].split('/')
            place = found
            for one in way:
                place = place[one]
            if change['op'] == 'remove':
                del place[field]
            else:
                place[field] = change['value']
        return found

    def on_vifs(self, method, port_id, body):
        if method == 'GET':
            return {'vifs': [{'id': one} for one in self.vifs]}
        if method == 'DELETE':
            if port_id not in self.vifs:
                return fault(400, f'Unable to detach VIF {port_id}: it is not attached.')
            self.vifs.remove(port_id)
            return 204, {}, ''
        if body['id'] in self.vifs:
            return fault(409, f'Unable to attach VIF {body["id"]}: it is already attached.')
        if len(self.vifs) >= self.room:
            return fault(400, f'Unable to attach {body["id"]}, not enough free physical ports.')
        self.vifs.append(body['id'])
        return 204, {}, ''

    def provision(self, target):
        node = self.nodes[0]
        if target == 'deleted':
            if node['provision_state'] == 'deploying':
                return fault(
                    400,
                    'The requested action "deleted" can not be performed on node "n-1" while it '
                    'is in state "deploying".',
                )
            self.claims.pop(node['instance_uuid'])
            node |= {'instance_uuid': None, 'provision_state': 'cleaning'}
        else:
            node['provision_state'] = 'deploying'
        return 202, {}, ''

    def sent(self, what):
        """Return the bodies of requests of one kind."""
        return [json.loads(body) for one, _, body in self.asked if re.fullmatch(what, one)]
