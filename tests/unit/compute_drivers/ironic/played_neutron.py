"""A played Neutron: networks, security groups and ports, with answers in Neutron's form."""

import json
import re
import uuid

from tests.unit.compute_drivers.nova.loopback import Loopback


def fault(status, said):
    """Return an error in the form of Neutron."""
    return status, {}, {'NeutronError': {'type': 'Trouble', 'message': said, 'detail': ''}}


class PlayedNeutron(Loopback):
    """Keeps ports; ``refusals`` has answers of the next requests, by regex."""

    def __init__(self):
        super().__init__()
        self.networks = [{'id': str(uuid.uuid4()), 'name': 'net1'}]
        self.groups = [{'id': str(uuid.uuid4()), 'name': 'web'}]
        self.ports = {}
        self.refusals = []
        #: What is done once, right before the next change of a port.
        self.meanwhile = []

    @property
    def net_id(self):
        return self.networks[0]['id']

    def port(self, **more):
        """Make a port of somebody."""
        port_id = str(uuid.uuid4())
        self.ports[port_id] = {
            'id': port_id, 'name': '', 'network_id': self.net_id, 'device_id': '',
            'device_owner': '', 'description': '', 'revision_number': 1,
            'mac_address': f'fa:16:3e:00:00:{len(self.ports):02x}',
            'created_at': '2026-11-29T10:00:00Z',
            **more,
            'fixed_ips': [{'subnet_id': 'sub-1', 'ip_address': f'10.0.0.{len(self.ports) + 2}'}],
        }  # fmt: skip
        return port_id

    def answer(self, what, query):
        _, headers, sent = self.asked[-1]
        method, _, path = what.partition(' /v2.0/')
        refusal = self.refusal(what)
        # What is lost has taken effect.
        if refusal is None or refusal[0] >= 500:
            body = json.loads(sent) if sent else {}
            found = self.found(method, path.split('/'), body, query, headers)
        self.answers['now'] = refusal or found
        return super().answer('now', {})

    def refusal(self, what):
        for at, (pattern, refusal) in enumerate(self.refusals):
            if re.fullmatch(pattern, what):
                del self.refusals[at]
                return refusal
        return None

    def found(self, method, parts, body, query, headers):
        match method, parts:
            case 'GET', ['networks']:
                return {'networks': _rows(self.networks, query)}
            case 'GET', ['security-groups']:
                return {'security_groups': _rows(self.groups, query)}
            case 'GET', ['ports']:
                return {'ports': _rows(self.ports.values(), query)}
            case 'POST', ['ports']:
                made = [self.port(**one) for one in body['ports']]
                return 201, {}, {'ports': [self.ports[one] for one in made]}
            case method, ['ports', port_id]:
                return self.on_port(method, port_id, body, headers)
        raise AssertionError(f'{method} {parts}')

    def on_port(self, method, port_id, body, headers):
        if method != 'GET' and self.meanwhile:
            self.meanwhile.pop()()
        port = self.ports.get(port_id)
        if port is None:
            return fault(404, f'Port {port_id} could not be found.')
        if method == 'DELETE':
            del self.ports[port_id]
            return 204, {}, ''
        if method == 'PUT':
            if headers.get('If-Match') != f'revision_number={port["revision_number"]}':
                return fault(412, 'Constrained to another revision.')
            port |= {**body['port'], 'revision_number': port['revision_number'] + 1}
        return {'port': port}


def _rows(rows, query):
    wanted = {key: value for key, value in query.items() if key not in ('fields', 'limit')}
    return [row for row in rows if all(row.get(key) == wanted[key] for key in wanted)]
