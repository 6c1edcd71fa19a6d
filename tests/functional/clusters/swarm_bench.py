"""Bench of swarm_debian_v1: Docker Engines over TLS, with the rules of the simulated swarm."""

import dataclasses
import datetime
import json
import tarfile

from kiln.cluster_drivers.expectations import Change
from kiln.cluster_drivers.swarm_debian_v1.line import Refused
from kiln.cluster_drivers.values import PlannedChange, PlannedGroup
from kiln.clusters.models import NodeState, OperationKind
from kiln.clusters.spec import Portion, Shape
from kiln.testing.clusters import MachineBench, Response
from tests.functional.clusters import swarm_tls
from tests.unit.cluster_drivers.swarm.sim import Sim, task

PORT = 2376
READY = NodeState.READY
#: Seconds after which a join whose node never came up is abandoned, and some in which
#: nobody looks.
ABANDONED_S = 300.0
#: In how many lists a node that has joined stands before its manager has heard of it.
UNHEARD = 2


class Engines(Sim):
    """The simulated engines, with what real ones refuse, and with the time that a swarm takes."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        #: By name of the machine: what its system calls itself.
        self.hostnames = {}
        #: By name of the machine: the role and the token by which its node has joined.
        self.joined = {}
        self.wrongs = []
        #: Roles whose next rotation finds the swarm changed by somebody else.
        self._contended = set()
        #: Managers that are being demoted.
        self._demoted = set()

    @staticmethod
    def heard(peer):
        """Return True if a node has said anything since it joined."""
        return peer.get('listed', UNHEARD + 1) > UNHEARD

    def _info(self, machine):
        return {**super()._info(machine), 'SystemTime': _moment(self.clock.time())}

    def _join(self, machine, body):
        super()._join(machine, body)
        (role,) = (
            one for one, token in machine.swarm.tokens.items() if token == body['JoinToken']
        )
        self.joined[machine.name] = role, body['JoinToken']
        self._contended.add(role)
        machine.swarm.peers[machine.peer_id] |= {'since': self.clock.time(), 'listed': 0}

    def _init(self, machine, body):
        super()._init(machine, body)
        if not body['ForceNewCluster']:
            self.joined[machine.name] = 'manager', ''

    def _leave(self, machine, force):
        if machine.swarm and self.joined[machine.name][0] == 'manager' and not force:
            raise Refused('this node is participating as a manager')
        super()._leave(machine, force)

    def _update_swarm(self, swarm, query, body):
        for role in list(self._contended):
            if query.get(f'rotate{role.title()}Token') == 'true':
                self._contended.discard(role)
                swarm.index += 1
        super()._update_swarm(swarm, query, body)

    def _told(self, swarm, what, query):
        if what == 'nodes':
            for peer_id, peer in swarm.peers.items():
                peer['listed'] = peer.get('listed', UNHEARD) + swarm.alive(peer_id)
        told = super()._told(swarm, what, query)
        # Real ones list nodes in no order; here a manager comes last.
        return told[::-1] if what == 'nodes' else told

    def _peer(self, swarm, peer_id):
        shown, peer = super()._peer(swarm, peer_id), swarm.peers[peer_id]
        shown['Description']['Hostname'] = self.hostnames[peer['machine'].name]
        if 'since' in peer:
            shown['CreatedAt'] = _moment(peer['since'])
        if not self.heard(peer):
            # It has said nothing of itself, not even what its engine is called.
            shown['Description'] = {'Resources': {}}
            shown['Status'] = {'State': 'unknown'}
            if 'ManagerStatus' in shown:
                shown['ManagerStatus'] = {'Reachability': 'unreachable'}
        return shown

    def _update(self, swarm, peer_id, version, body):
        before = swarm.peers.get(peer_id, {}).get('Spec', {})
        super()._update(swarm, peer_id, version, body)
        peer = swarm.peers[peer_id]
        name = peer['machine'].name
        if before.get('Role') == 'manager' and body['Role'] == 'worker':
            self._demoted.add(peer_id)
        labelled = 'kiln.node' in body['Labels'] and 'kiln.node' not in before['Labels']
        if labelled and self.joined[name][1] in swarm.tokens.values():
            self.wrongs.append(f'{name} has its labels, and its token is valid still')

    def _remove_with(self, swarm, peer_id, force):
        if peer_id in self._demoted:
            # Managers agree on it a moment after they were asked.
            self._demoted.discard(peer_id)
            raise Refused('node is a cluster manager and is being demoted')
        if not force and peer_id in swarm.peers and swarm.alive(peer_id):
            raise Refused('node is not down and cannot be removed')
        super()._remove(swarm, peer_id)

    def _answer(self, machine, method, parts, query, body):
        if method == 'DELETE':
            swarm = self._managed(machine)
            force = query.get('force', '').lower() not in ('', '0', 'no', 'false', 'none')
            return self._remove_with(swarm, parts[1], force)
        return super()._answer(machine, method, parts, query, body)


def _moment(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


class SwarmBench(MachineBench):
    """What the image runs on each machine, with the files that the driver gave it."""

    ports = frozenset({PORT})
    groups = {'control': 3, 'worker': 3}  # noqa: RUF012
    refused_groups = ({'worker': 2}, {'control': 2, 'worker': 1})
    refused = ({'log_max_files': 0}, {'availability': 'off'})
    accepted = ({'log_max_files': 1}, {'availability': 'pause'})
    refused_arguments = (
        ('recover', {'node': 'nobody'}),
        ('context', {'days': 0}),
        ('context', {'days': 91}),
    )
    recovery = 'recover'

    def __init__(self, clock):
        super().__init__(clock)
        self._engines = Engines(clock)
        self._machines = {}
        self._dead = set()
        self._servers = {}
        self._busy_until = {}
        self._found = []
        #: Folders to which a person's certificate is to be written.
        self._people = []

    # ---- what its author expects -----------------------------------------------------

    @staticmethod
    def staying(nodes):
        return ()

    @staticmethod
    def expected_outputs(nodes):
        managers = [one for one in nodes if one.group == 'control']
        return {'api': [f'tcp://{one.address}:2376' for one in managers if one.state is READY]}

    @staticmethod
    def refused_changes(cluster, nodes):
        three, one = _sized(cluster, 3), _sized(cluster, 1)
        managers = [node for node in nodes if node.group == 'control']
        yield _change(_with_unavailable(three, 2), nodes)
        yield _change(one, managers[:1], reset=managers[:1])
        # The one that would be left does not work.
        *others, last = managers
        ill = dataclasses.replace(last, state=NodeState.UNHEALTHY)
        yield _change(one, [*others, ill], removed=others)

    @staticmethod
    def accepted_changes(cluster, nodes):
        managers = [node for node in nodes if node.group == 'control']
        workers = [node for node in nodes if node.group != 'control']
        yield _change(_with_unavailable(_sized(cluster, 3), 1), nodes)
        yield _change(_sized(cluster, 1), [*managers[:1], *workers], reset=workers)
        yield _change(_sized(cluster, 3), managers, reset=managers)
        yield _change(_sized(cluster, 1), managers, removed=managers[1:])
        *others, last = managers
        ill = dataclasses.replace(last, state=NodeState.UNHEALTHY)
        yield _change(_sized(cluster, 1), [*others, ill], removed=[*others[1:], ill])

    # ---- machines --------------------------------------------------------------------

    def boot(self, machine):
        self._engines.boot(machine.node)
        self._engines.hostnames[_identity(machine)] = machine.node.name
        self._machines[machine.node.name] = machine
        self._dead.discard(machine.node.name)

    def die(self, machine):
        self._engines.of(machine.node).up = False
        self._dead.add(machine.node.name)

    def stop(self, machine):
        self._engines.destroy(machine.node)
        if self._machines.get(machine.node.name) is machine:
            del self._machines[machine.node.name]
            self._dead.discard(machine.node.name)

    def tls(self, machine, port):
        if machine not in self._servers:
            self._servers[machine] = found = swarm_tls.server(machine)
            if found is not None:
                manages = machine.node.group == 'control'
                self._found += swarm_tls.wrongs(
                    machine, found, name=_identity(machine), by_address=manages
                )
        found = self._servers[machine]
        return None if found is None else found.context

    def answer(self, machine, request):
        self._work()
        name = _identity(machine)
        body = json.loads(request.body) if request.body else None
        try:
            found = self._engines.ask(name, request.method, request.path, body)
        except Refused as exc:
            return Response(status=503, body=json.dumps({'message': exc.reason}))
        except (AssertionError, KeyError, ValueError) as exc:
            return Response(status=404, body=json.dumps({'message': f'page not found: {exc}'}))
        return Response(body='' if found is None else json.dumps(found))

    def _work(self):
        """Let nodes have tasks for as long as they serve."""
        self._engines.tasks.clear()
        for name, until in self._busy_until.items():
            if name in self._machines and self.clock.monotonic() < until:
                peer_id = self._engines.of(self._machines[name].node).peer_id
                states = ('running', 'preparing', 'complete', 'shutdown')
                self._engines.tasks[name] = [task(peer_id, one, cpus=1) for one in states]

    # ---- the cluster -----------------------------------------------------------------

    @property
    def _swarm(self):
        """The swarm of the first machine that manages one."""
        found = (one.swarm for one in self._engines.machines.values() if one.manages)
        return next(found, None)

    def _peer_of(self, name):
        """Return the id of a node in the swarm, and its entry; None if it has none."""
        peer_id = self._engines.of(self._machines[name].node).peer_id
        return peer_id, self._swarm.peers.get(peer_id) if self._swarm else None

    def members(self):
        peers = self._swarm.peers.values() if self._swarm else ()
        return [self._name_of(one) for one in peers if self._engines.heard(one)]

    def _name_of(self, peer):
        node_id = peer['Spec']['Labels'].get('kiln.node', peer['machine'].name)
        names = {one.node.id: name for name, one in self._machines.items()}
        return names.get(node_id, f'{node_id}, which is gone')

    def wrongs(self):
        yield from self._found
        for one in self._people:
            yield from self._unfit(*one)
        self._people.clear()
        swarm = self._swarm
        if swarm is None:
            return
        yield from self._engines.wrongs
        if len(self._engines.living) > 1:
            yield f'there are {len(self._engines.living)} swarms'
        if len(self._engines.swarms) > 1:
            yield f'a swarm was founded {len(self._engines.swarms)} times'
        used = {token for _, token in self._engines.joined.values() if token}
        if used & set(swarm.tokens.values()):
            yield 'a token with which a node has joined is valid still'
        yield from self._left(swarm)
        for name, machine in self._machines.items():
            _, peer = self._peer_of(name)
            if peer is not None:
                yield from _differences(name, machine.node, peer['Spec'])

    def _left(self, swarm):
        """Yield nodes of the swarm whose machines are gone, if it can forget any."""
        if not swarm.has_quorum:
            return
        there = [self._engines.of(one.node) for one in self._machines.values()]
        for peer in swarm.peers.values():
            name = peer['machine'].name
            old = self.clock.time() - peer.get('since', 0.0) > ABANDONED_S
            if peer['machine'] not in there and (old or self._engines.heard(peer)):
                yield f'the swarm has {name}, whose machine is gone'

    def lose(self, name):
        peer_id, peer = self._peer_of(name)
        if peer is not None:
            del self._swarm.peers[peer_id]

    def serve(self, name, seconds):
        self._busy_until[name] = self.clock.monotonic() + seconds

    def certificate(self):
        return {'the swarm': str(self._swarm.spec.get('CAConfig'))}

    # ---- what is told of it ----------------------------------------------------------

    def _shown(self):
        """Return the nodes as the swarm shows them, without that it shows them."""
        swarm = self._swarm
        return [self._engines._peer(swarm, one) for one in swarm.peers]  # ours

    def _at_risk(self):
        managers = [one['ManagerStatus'] for one in self._shown() if 'ManagerStatus' in one]
        reached = sum(one['Reachability'] == 'reachable' for one in managers)
        if len(managers) > 2 and reached == len(managers) // 2 + 1:
            return (
                f'{reached} of {len(managers)} managers are reachable: one more failure loses '
                f'the quorum'
            )
        return ''

    def readings(self):
        self._work()
        shown = self._shown()
        ready = sum(one['Status']['State'] == 'ready' for one in shown)
        busy = len(self._engines.tasks)
        reached = [one.get('ManagerStatus', {}).get('Reachability') for one in shown]
        return {
            'nodes': len(shown), 'nodes_ready': ready, 'services': 1, 'tasks_running': busy,
            'managers_reachable': reached.count('reachable'),
            # Two tasks on each busy node, of the two processors and 1000 bytes of each node.
            'cpu_reserved': 2 * busy / (2 * ready), 'memory_reserved': 200 * busy / (1000 * ready),
        }  # fmt: skip

    def answers(self, folder):
        self._work()
        states = {'ready': 'ready', 'down': 'down', 'unknown': 'down'}
        nodes = {
            one['Description']['Hostname']: f'{one["Spec"]["Role"]}, '
            f'{states[one["Status"]["State"]]}, {one["Spec"]["Availability"]}'
            + (', leader' if one.get('ManagerStatus', {}).get('Leader') else '')
            for one in self._shown()
        }
        warning = {'warning': self._at_risk()} if self._at_risk() else {}
        managers = [one for one in self._machines.values() if one.node.group == 'control']
        oldest = min(managers, key=lambda one: one.node.created_at)
        yield 'nodes', {}, {**nodes, **warning}
        yield 'services', {}, {'web': len(self._engines.tasks)}
        yield 'tokens', {}, {'rotated': ['manager', 'worker']}
        yield 'certificates', {}, {'rotating': 'the authority of the swarm'}
        yield 'recover', {'node': oldest.node.name}, None
        for name, given, days in (
            ('user', {}, 30),
            ('n' * 99, {'name': 'n' * 99, 'days': 90}, 90),
        ):
            to = folder / name[:8]
            self._people.append((to, oldest, name[:64], days))
            endpoint = f'tcp://{oldest.node.address}:2376'
            yield 'context', {'to': str(to), **given}, {
                'endpoint': endpoint, 'folder': str(to),
                'import': f'docker context import kit {to}/context.tar',
                'use': 'docker --context kit node ls',
            }  # fmt: skip

    def _unfit(self, folder, machine, name, days):
        """Yield what is wrong with what was written for a person."""
        if not (folder / 'context.tar').exists():
            return  # the verb itself is wrong
        for path in (folder, *folder.iterdir()):
            if path.stat().st_mode & 0o077:
                yield f'others can read {path.name}, which was written for a person'
        with tarfile.open(folder / 'context.tar') as tar:
            files = {one: tar.extractfile(one).read() for one in tar.getnames()}
        meta = json.loads(files.pop('meta.json'))
        host = {'Host': f'tcp://{machine.node.address}:2376', 'SkipTLSVerify': False}
        if (meta['Name'], meta['Endpoints']) != ('kit', {'docker': host}):
            yield f'a context of Docker is {meta}'
        written = {f'tls/docker/{one}': (folder / one).read_bytes() for one in FILES}
        if files != written:
            yield 'a context of Docker has other certificates than those beside it'
        if reason := swarm_tls.person(
            folder, machine.node.address, self._servers[machine].context
        ):
            yield f'a person does not reach {machine.node.name}: {reason}'
        if swarm_tls.valid(folder) != (name, days):
            yield f'a person of name {name} has a certificate of {swarm_tls.valid(folder)}'

    def order(self, nodes):
        self._work()

        def weight(node):
            peer_id, peer = self._peer_of(node.name)
            if peer is None or node.name in self._dead:
                return False, 0
            shown = self._engines._peer(self._swarm, peer_id)  # ours
            leads = shown.get('ManagerStatus', {}).get('Leader', False)
            return leads, 2 if node.name in self._engines.tasks else 0

        return sorted(nodes, key=weight)

    def troubles(self):
        return [*self._dead, *([self._at_risk()] if self._at_risk() else [])]


FILES = ('ca.pem', 'cert.pem', 'key.pem')


def _differences(name, node, spec):
    role = 'manager' if node.group == 'control' else 'worker'
    if spec['Role'] != role:
        yield f'{name} is a {spec["Role"]}'
    if spec['Availability'] != 'active':
        yield f'{name} is set to {spec["Availability"]}'
    zone = {'kiln.zone': node.place.zone} if node.place.zone else {}
    labels = {'kiln.node': node.id, 'kiln.group': node.group, **zone}
    if spec['Labels'] != labels:
        yield f'{name} has the labels {spec["Labels"]}'


def _identity(machine):
    return f'{machine.node.id}.{machine.node.attempt}.kiln'


# ---- changes ---------------------------------------------------------------------------


def _sized(cluster, managers, **changes):
    """Return a cluster with another number of managers."""
    groups = [
        dataclasses.replace(one, shape=Shape(count=managers)) if one.role == 'control' else one
        for one in cluster.spec.groups
    ]
    return dataclasses.replace(
        cluster, spec=dataclasses.replace(cluster.spec, groups=tuple(groups))
    )


def _with_unavailable(cluster, number):
    groups = [
        dataclasses.replace(
            one, strategy=dataclasses.replace(one.strategy, max_unavailable=Portion(number))
        )
        for one in cluster.spec.groups
    ]
    return dataclasses.replace(
        cluster, spec=dataclasses.replace(cluster.spec, groups=tuple(groups))
    )


def _change(cluster, nodes, **of):
    """Return a change of one group: that of the nodes that are named, or of the managers."""
    named = next((one for one in (*of.values(),) if one), None)
    group = PlannedGroup(
        name=named[0].group if named else 'control',
        **{name: tuple(there) for name, there in of.items()},
    )
    plan = PlannedChange(kind=OperationKind.UPDATE, groups=(group,))
    return Change(cluster=cluster, nodes=tuple(nodes), plan=plan)
