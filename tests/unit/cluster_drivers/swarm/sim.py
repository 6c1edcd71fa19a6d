"""Simulated engines, without processes, which follow the rules of a Swarm.

The behaviour of real engines is tested in tests/functional/swarm. Here many life cycles run
quickly, with lost answers and dead machines.
"""

import collections
import itertools
import urllib.parse

from kiln.cluster_drivers.swarm_debian_v1.engine import Engine
from kiln.cluster_drivers.swarm_debian_v1.line import Refused, Silent
from kiln.cluster_drivers.swarm_debian_v1.pki import identity


class Machine:
    """One engine, with the identity that its certificate proves."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        self.up = True
        self.swarm = None
        self.peer_id = ''

    @property
    def manages(self):
        return bool(self.swarm) and self.swarm.is_manager(self.peer_id)


class SimSwarm:
    """One swarm: its nodes and tokens."""

    def __init__(self, number, names):
        self.id = f'swarm-{number}'
        self._names = names
        self.index = 1
        self.peers = {}
        self.tokens = {'worker': next(names), 'manager': next(names)}
        self.spec = {'CAConfig': {}}

    def is_manager(self, peer_id):
        return peer_id in self.peers and self.peers[peer_id]['Spec']['Role'] == 'manager'

    def enter(self, machine, role):
        machine.swarm, machine.peer_id = self, next(self._names)
        self.peers[machine.peer_id] = {
            'machine': machine, 'index': 1,
            'Spec': {'Role': role, 'Availability': 'active', 'Labels': {}},
        }  # fmt: skip

    def alive(self, peer_id):
        machine = self.peers[peer_id]['machine']
        return machine.up and machine.peer_id == peer_id

    @property
    def managers(self):
        return [one for one in self.peers if self.is_manager(one)]

    @property
    def has_quorum(self):
        managers = self.managers
        return sum(map(self.alive, managers)) >= len(managers) // 2 + 1

    def rotate(self, role):
        self.tokens[role] = next(self._names)
        self.index += 1


class Sim:
    """All machines, and all swarms that were ever founded."""

    def __init__(self):
        self._names = (f'name-{number}' for number in itertools.count())
        self._numbers = itertools.count(1)
        self.machines = {}
        self.swarms = []
        self.tasks = collections.defaultdict(list)
        self.log = []
        #: Make the next change, and lose its answer.
        self.lose_answer = False
        #: Called before the next change, like a faster concurrent caller.
        self.before = None

    def boot(self, node):
        """Start a machine with an empty disk; it replaces a former machine of the node."""
        self.destroy(node)
        self.machines[identity(node)] = Machine(identity(node), node.address)

    def destroy(self, node):
        if machine := self.machines.pop(identity(node), None):
            machine.up = False

    def of(self, node):
        return self.machines[identity(node)]

    def open(self, context, cluster, node):
        return Engine(SimLine(self, identity(node)), node.address)

    @property
    def living(self):
        """The swarms that still have a manager."""
        return {
            machine.swarm.id
            for machine in self.machines.values()
            if machine.swarm and machine.manages
        }

    # ---- requests ------------------------------------------------------------------

    def ask(self, name, method, path, body):
        machine = self.machines.get(name)
        if machine is None or not machine.up:
            raise Silent('nobody answers')
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip('/').split('/')
        if method != 'GET':
            self.log.append((name, method, url.path))
            before, self.before = self.before, None
            if before:
                before()
        answer = self._answer(machine, method, parts, query, body)
        if method != 'GET' and self.lose_answer:
            self.lose_answer = False
            raise Silent('the answer is lost')
        return answer

    def _answer(self, machine, method, parts, query, body):
        match method, *parts:
            case 'GET', 'info':
                return self._info(machine)
            case 'POST', 'swarm', 'init':
                return self._init(machine, body)
            case 'POST', 'swarm', 'join':
                return self._join(machine, body)
            case 'POST', 'swarm', 'leave':
                return self._leave(machine, query['force'] == 'true')
        swarm = self._managed(machine)
        if method == 'GET':
            return self._told(swarm, parts[0], query)
        match method, *parts:
            case 'POST', 'swarm', 'update':
                return self._update_swarm(swarm, query, body)
            case 'POST', 'nodes', peer_id, 'update':
                return self._update(swarm, peer_id, int(query['version']), body)
            case 'DELETE', 'nodes', peer_id:
                return self._remove(swarm, peer_id)
        raise AssertionError(f'{method} {parts}')

    def _told(self, swarm, what, query):
        if what == 'nodes':
            return [self._peer(swarm, peer_id) for peer_id in swarm.peers]
        if what == 'tasks':
            every = [task for tasks in self.tasks.values() for task in tasks]
            return [one for one in every if one['NodeID'] in query.get('filters', one['NodeID'])]
        if what == 'services':
            return [{'ID': 'service-1', 'Spec': {'Name': 'web'}}]
        tokens = {role.title(): token for role, token in swarm.tokens.items()}
        return {
            'ID': swarm.id, 'Version': {'Index': swarm.index}, 'Spec': swarm.spec,
            'JoinTokens': tokens,
        }  # fmt: skip

    def _managed(self, machine):
        if not machine.manages:
            raise Refused('this node is not a swarm manager')
        if not machine.swarm.has_quorum:
            raise Refused('the swarm does not have a leader')
        return machine.swarm

    def _info(self, machine):
        state = 'active' if machine.swarm else 'inactive'
        return {'Swarm': {
            'LocalNodeState': state, 'NodeID': machine.peer_id,
            'ControlAvailable': machine.manages,
        }}  # fmt: skip

    def _init(self, machine, body):
        if machine.swarm and body['ForceNewCluster']:
            for peer_id in machine.swarm.managers:
                if peer_id != machine.peer_id:
                    machine.swarm.peers[peer_id]['Spec']['Role'] = 'worker'
            return
        if machine.swarm:
            raise Refused('this node is already part of a swarm')
        swarm = SimSwarm(next(self._numbers), self._names)
        self.swarms.append(swarm)
        swarm.enter(machine, 'manager')

    def _join(self, machine, body):
        if machine.swarm:
            raise Refused('this node is already part of a swarm')
        address = body['RemoteAddrs'][0].rpartition(':')[0]
        manager = next(
            (one for one in self.machines.values() if one.address == address and one.up), None
        )
        if manager is None:
            raise Refused('nobody answers there')
        swarm = self._managed(manager)
        role = next((role for role, one in swarm.tokens.items() if one == body['JoinToken']), '')
        if not role:
            raise Refused('a valid join token is necessary')
        swarm.enter(machine, role)

    def _leave(self, machine, force):
        if not machine.swarm:
            raise Refused('this node is not part of a swarm')
        if machine.manages and not force:
            raise Refused('this node is a manager')
        machine.swarm, machine.peer_id = None, ''

    def _update_swarm(self, swarm, query, body):
        if int(query['version']) != swarm.index:
            raise Refused('update out of sequence')
        swarm.spec = body
        swarm.index += 1
        for role in ('worker', 'manager'):
            if query.get(f'rotate{role.title()}Token') == 'true':
                swarm.rotate(role)

    def _peer(self, swarm, peer_id):
        peer = swarm.peers[peer_id]
        alive = swarm.alive(peer_id)
        shown = {
            'ID': peer_id, 'Version': {'Index': peer['index']}, 'Spec': peer['Spec'],
            'Status': {'State': 'ready' if alive else 'down'},
            'Description': {
                'Hostname': peer['machine'].name,
                'Engine': {'Labels': {'kiln.node': peer['machine'].name.rpartition('.1.kiln')[0]}},
                'Resources': {'NanoCPUs': 2_000_000_000, 'MemoryBytes': 1000},
            },
        }  # fmt: skip
        if swarm.is_manager(peer_id):
            reach = 'reachable' if alive else 'unreachable'
            leader = alive and peer_id == next(filter(swarm.alive, swarm.managers), '')
            shown['ManagerStatus'] = {'Reachability': reach, 'Leader': leader}
        return shown

    def _update(self, swarm, peer_id, version, body):
        if peer_id not in swarm.peers or swarm.peers[peer_id]['index'] != version:
            raise Refused('update out of sequence')
        if body['Role'] == 'worker' and swarm.managers == [peer_id]:
            raise Refused('attempting to demote the last manager of the swarm')
        swarm.peers[peer_id] |= {'Spec': body, 'index': version + 1}

    def _refuse(self, *of):
        raise Refused('it is not to be')

    def _remove(self, swarm, peer_id):
        if peer_id not in swarm.peers:
            raise Refused('node not found')
        if swarm.is_manager(peer_id):
            raise Refused('node is a cluster manager')
        del swarm.peers[peer_id]


class SimLine:
    def __init__(self, sim, name):
        self._sim, self._name = sim, name

    def ask(self, method, path, body=None, *, timeout_s=2.0):
        return self._sim.ask(self._name, method, path, body)

    def close(self):
        pass


def task(peer_id, state='running', cpus=0):
    return {
        'NodeID': peer_id, 'ServiceID': 'service-1', 'Status': {'State': state},
        'Spec': {'Resources': {'Reservations': {'NanoCPUs': cpus * 10**9, 'MemoryBytes': 100}}},
    }  # fmt: skip
