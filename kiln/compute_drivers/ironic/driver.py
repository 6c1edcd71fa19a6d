"""The Ironic driver: amphorae as nodes of bare metal, claimed by allocations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.claiming import about_claim, is_claimed
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, MachinePool
from kiln.compute_drivers.authoring.openstack_names import Remembered
from kiln.compute_drivers.authoring.openstack_networks import Networks, check_networks
from kiln.compute_drivers.ironic import pool, translate
from kiln.compute_drivers.ironic.api.client import HISTORY, Ironic, minor
from kiln.compute_drivers.ironic.api.neutron import Neutron, is_reachable
from kiln.compute_drivers.ironic.building.claims import Claims, about, known_form
from kiln.compute_drivers.ironic.building.flavors import IMAGE_FIELDS, Flavor, image_info
from kiln.compute_drivers.ironic.building.nics import Nics
from kiln.compute_drivers.ironic.catalogue import Catalogue
from kiln.compute_drivers.ironic.node_ports import NodePorts
from kiln.exceptions import (
    AmphoraComputeError,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    NotSuspendedError,
    ResourceNotFoundError,
)
from kiln.models import (
    Amphora,
    BuildRequest,
    DriverHealth,
    State,
)
from kiln.openstack.session import open_session

#: The form of the names and ids of nodes.
_NAME = re.compile('[A-Za-z0-9._~-]+')
_FIELDS = {'fields': ','.join(translate.NODE_FIELDS)}
_INFO_FIELDS = {'fields': ','.join((*translate.NODE_FIELDS, 'instance_info'))}
_POOL_FIELDS = {'fields': ','.join((*translate.NODE_FIELDS, 'traits'))}
#: Reasons of failures that are remembered.
_MEMORY = 5000
#: Seconds for which the ids of networks and security groups are remembered.
_MEMORY_S = 300.0

_Pair = tuple[dict[str, Any], dict[str, Any] | None]


class IronicDriver(NodePorts, MachinePool):
    """Builds amphorae on nodes of one Ironic, which are enrolled there and stay there.

    A build claims a free node by an allocation, and deploys it with a config drive. A delete
    undeploys the node; that Ironic cleans it afterwards holds nothing up. Suspending is
    powering off. Networks and ports are those of Neutron; without it, builds that name some
    are refused, and the addresses of a node are those of its network data.
    """

    options = lazy_options('kiln.compute_drivers.ironic.conf')
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.ironic.bench:IronicBench'
    name = 'ironic'
    most_read_by_id = 3

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._conf = conf
        session, region = open_session(conf)
        self._ironic = Ironic(conf, session, region=region, clock=clock)
        self._catalogue = Catalogue(self._ironic, zone_property=conf.zone_property)
        neutron = Neutron(conf, session, region=region, clock=clock)
        self._networks = Networks(
            neutron.ask, Remembered(clock, ttl_s=_MEMORY_S), lambda: neutron.project_id
        )
        self._nics = Nics(self._ironic, neutron)
        self._claims = Claims(
            conf, self._ironic, self._catalogue, self._nics, self._networks, clock
        )
        self._has_neutron = is_reachable(conf)
        # Why a node failed, by its id and the time when it did.
        self._reasons: dict[tuple[str, str], str | None] = {}

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        driver = cls(conf, clock=clock)
        driver.name, driver.owner = name, owner
        return driver

    def close(self) -> None:
        self._ironic.close()

    # ---- build, delete, find -------------------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        return self._claims.build(request)

    def _delete(self, amphora_id: str) -> None:
        asked = about('delete', amphora_id)
        self._claims.delete(asked, self._ours(asked))

    def _get(self, amphora_id: str) -> Amphora:
        asked = about('get', amphora_id)
        return self._amphora(asked, self._pair(asked))

    def _list(self, owner: str) -> Iterable[Amphora]:
        asked = Asked(verb='list', subject=f'the amphorae of {owner}')
        return [self._amphora(asked, pair) for pair in self._pairs(asked, owner)]

    def _find_build(self, build_key: str) -> Amphora | None:
        asked = Asked(verb='look for build', subject=build_key, build_key=build_key)
        claim = self._claims.find(asked, self.owner, build_key)
        return None if claim is None else self._amphora(asked, self._with_node(asked, claim))

    def _claim(self, amphora_id: str, build_key: str) -> None:
        asked = known_form(about_claim(amphora_id, build_key))
        claim, node = self._pair(asked)
        facts = translate.facts_of(claim)
        has = {'has_owner': facts.get('owner'), 'has_key': facts.get('build_key')}
        if is_claimed(asked, self.owner, **has):
            if claim.get('state') != 'error':
                return
            try:
                # A claim that was refused, and killed before it was taken back.
                claim = self._unclaimed(asked)
            except InstanceNotFoundError:
                # A build of this site that found no node: it has its key.
                return
            self._claims.withdraw(asked, claim)
            node = self._with_node(asked, claim)[1]
        if claim.get('of_nova'):
            raise asked.error(
                InvalidRequest, 'it is a server of Nova: claim it in a backend with driver nova.'
            )
        if node is None or node.get('provision_state') != 'active':
            raise _in_state(asked, translate.state_of(claim, node))
        self._claims.adopt(asked, claim, node, self.owner)

    def _check(self) -> DriverHealth:
        asked = Asked(verb='check', subject='the backend')
        started = self.clock.monotonic()
        self._ironic.ask(asked, 'GET', '/allocations', query={'limit': 1})
        latency_s = self.clock.monotonic() - started
        self._check_defaults(asked)
        detail = f'microversion {self._ironic.version(asked)}'
        return DriverHealth(healthy=True, detail=detail, latency_s=latency_s)

    def _check_defaults(self, asked: Asked) -> None:
        conf = self._conf
        if conf.image:
            image_info(asked, conf.image)
        if conf.flavor and not self._catalogue.exists(asked, Flavor.read(asked, conf.flavor)):
            raise asked.error(
                InvalidRequest, f'option flavor: no node has flavor {conf.flavor!r}.'
            )
        if conf.availability_zone:
            self._catalogue.check_zone(asked, conf.availability_zone)
        check_networks(asked, conf.networks, ())
        self._networks.ids(asked, conf.networks)
        self._networks.group_ids(asked, conf.security_groups)

    # ---- execution state -------------------------------------------------------------

    def _suspend(self, amphora_id: str) -> None:
        asked = about('suspend', amphora_id)
        claim, node = self._running(asked)
        if translate.state_of(claim, node) is not State.SUSPENDED:
            self._power(asked, node, 'power off')

    def _resume(self, amphora_id: str) -> None:
        asked = about('resume', amphora_id)
        claim, node = self._running(asked)
        if translate.state_of(claim, node) is not State.SUSPENDED:
            if node.get('target_power_state') == 'power off':
                raise asked.error(
                    InstanceStateConflict, 'it is still being powered off.', retryable=True
                )
            raise asked.error(NotSuspendedError, 'its node is powered on.')
        self._power(asked, node, 'power on')

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        asked = about('reboot', amphora_id)
        claim, node = self._running(asked)
        if translate.state_of(claim, node) is State.SUSPENDED:
            raise _powered_off(asked)
        self._power(asked, node, 'rebooting' if hard else 'soft rebooting')

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        asked = about('rebuild', amphora_id)
        claim, node = self._with_node(asked, self._ours(asked))
        state = translate.state_of(claim, node)
        if state is State.SUSPENDED:
            # Not every deploy switches its node on at the end.
            raise _powered_off(asked)
        if node is None or state not in (State.ACTIVE, State.ERROR):
            raise _in_state(asked, state)
        path = f'/nodes/{node["uuid"]}'
        info = {} if image_id is None else image_info(asked, image_id)
        if translate.served(claim, node):
            # First of all: a rebuild that fails must not look like a build that failed.
            self._note(asked, served=True)
        if info:
            # All of them: Ironic refuses an ISO beside what is left of another image.
            self._patch(
                asked, path, {f'/instance_info/{name}': info.get(name) for name in IMAGE_FIELDS}
            )
        # The config drive stays, with all that is in it.
        self._ironic.ask(asked, 'PUT', f'{path}/states/provision', body={'target': 'rebuild'})
        if info:
            self._note(asked, image=image_id, source=image_id)

    def _note(self, asked: Asked, **facts: Any) -> None:
        """Write facts on the claim of an amphora."""
        values = {f'/extra/{translate.FACTS}/{name}': value for name, value in facts.items()}
        self._patch(asked, f'/allocations/{asked.amphora_id}', values)

    def _patch(self, asked: Asked, path: str, values: Mapping[str, Any]) -> None:
        body = [{'op': 'add', 'path': where, 'value': value} for where, value in values.items()]
        self._ironic.ask(asked, 'PATCH', path, body=body)

    def _power(self, asked: Asked, node: Mapping[str, Any], target: str) -> None:
        path = f'/nodes/{node["uuid"]}/states/power'
        self._ironic.ask(asked, 'PUT', path, body={'target': target})

    def _running(self, asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the claim and the node of an amphora whose power can be switched."""
        claim, node = self._with_node(asked, self._ours(asked))
        state = translate.state_of(claim, node)
        if node is None or state not in (State.ACTIVE, State.SUSPENDED):
            raise _in_state(asked, state)
        return claim, node

    # ---- validation ------------------------------------------------------------------

    def _validate_flavor(self, flavor: str) -> None:
        asked = Asked.of('use flavor', flavor)
        if not self._catalogue.exists(asked, Flavor.read(asked, flavor)):
            raise asked.error(InvalidRequest, 'no node has this resource class and these traits.')

    def _validate_zone(self, availability_zone: str) -> None:
        self._catalogue.check_zone(Asked.of('use zone', availability_zone), availability_zone)

    def _list_zones(self) -> Sequence[str]:
        return self._catalogue.zones(Asked(verb='list', subject='zones'))

    # ---- the nodes, for their operator ---------------------------------------------------

    def machines(self) -> Sequence[EnrolledMachine]:
        asked = Asked(verb='list', subject='the nodes')
        nodes = list(self._ironic.pages(asked, '/nodes', 'nodes', _POOL_FIELDS))
        claims = self._ironic.pages(asked, '/allocations', 'allocations', {})
        return tuple(pool.machines(nodes, claims, self._conf.zone_property))

    def maintain(self, name: str, reason: str | None) -> None:
        asked = Asked.of('maintain node', name)
        path = f'/nodes/{self._named(asked)["uuid"]}/maintenance'
        if reason is None:
            self._ironic.ask(asked, 'DELETE', path)
        else:
            self._ironic.ask(asked, 'PUT', path, body={'reason': reason})

    def release(self, name: str) -> None:
        asked = Asked.of('release node', name)
        node = self._named(asked)
        targets = pool.way_back(node)
        if targets is None:
            used = node.get('instance_uuid')
            why = f'it is in use as {used}' if used else f'it is {node["provision_state"]}'
            raise asked.error(InstanceStateConflict, f'{why}.', retryable=not used)
        path = f'/nodes/{node["uuid"]}'
        if node.get('maintenance'):
            self._ironic.ask(asked, 'DELETE', f'{path}/maintenance')
        for target in targets:
            self._ironic.ask(asked, 'PUT', f'{path}/states/provision', body={'target': target})

    def _named(self, asked: Asked) -> dict[str, Any]:
        if not _NAME.fullmatch(asked.subject):
            raise asked.error(ResourceNotFoundError, 'Ironic has no names of that form.')
        path = f'/nodes/{asked.subject}'
        found: dict[str, Any] = self._ironic.ask(asked, 'GET', path, query=_FIELDS)
        return found

    # ---- claims and their nodes --------------------------------------------------------

    def _ours(self, asked: Asked) -> dict[str, Any]:
        """Return the allocation of an amphora of a kiln site, which can be acted upon."""
        claim = self._claimed(asked)
        if not translate.facts_of(claim).get('owner'):
            kind = DeleteFailed if asked.verb == 'delete' else InstanceStateConflict
            raise asked.error(kind, 'it belongs to no site. Claim it first.', retryable=False)
        return claim

    def _claimed(self, asked: Asked) -> dict[str, Any]:
        """Return the allocation of an amphora, or what stands for it if nobody has claimed it.

        :raises InstanceNotFoundError: it does not exist.
        """
        try:
            found: dict[str, Any] = self._ironic.ask(
                asked, 'GET', f'/allocations/{asked.amphora_id}'
            )
        except (InstanceNotFoundError, ResourceNotFoundError):
            return self._unclaimed(asked)
        # A database can compare without regard to capitals.
        if found.get('uuid') != asked.amphora_id:
            raise asked.error(InstanceNotFoundError, 'Ironic has no such allocation.')
        return found if translate.facts_of(found) else self._unclaimed(asked, found)

    def _unclaimed(self, asked: Asked, allocation: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what stands for the claim of an instance that others have deployed."""
        query = {**_INFO_FIELDS, 'instance_uuid': str(asked.amphora_id)}
        for node in self._ironic.ask(asked, 'GET', '/nodes', query=query)['nodes']:
            if node.get('instance_uuid') == asked.amphora_id:
                return translate.unclaimed(node, allocation)
        raise asked.error(
            InstanceNotFoundError, 'Ironic has no such allocation, and no node with this instance.'
        )

    def _pair(self, asked: Asked) -> _Pair:
        return self._with_node(asked, self._claimed(asked))

    def _with_node(self, asked: Asked, claim: dict[str, Any]) -> _Pair:
        """Return a claim and its node; None as long as it has none."""
        if claim.get('node_uuid') is None:
            return claim, None
        node = self._ironic.ask(asked, 'GET', f'/nodes/{claim["node_uuid"]}', query=_FIELDS)
        return claim, node

    def _pairs(self, asked: Asked, owner: str) -> Iterator[_Pair]:
        """Yield the claims of an owner, each with its node, by two lists."""
        # In this order: a claim that is listed has not been given back, so a node that is
        # missing here was claimed since.
        query = {**_FIELDS, 'associated': 'true'}
        nodes = {
            node['uuid']: node for node in self._ironic.pages(asked, '/nodes', 'nodes', query)
        }
        for claim in self._ironic.pages(asked, '/allocations', 'allocations', {}):
            if translate.is_of(claim, owner):
                node = nodes.get(claim.get('node_uuid') or '')
                if node is None or not translate.holds(claim, node):
                    yield self._with_node(asked, claim)
                else:
                    yield claim, node

    def _amphora(self, asked: Asked, pair: _Pair) -> Amphora:
        claim, node = pair
        if translate.is_leaving(claim):
            self._claims.resume_delete(claim, node)
        return translate.amphora_of(
            claim,
            node,
            zone_property=self._conf.zone_property,
            fault=self._reason(asked, claim, node),
        )

    def _reason(
        self, asked: Asked, claim: Mapping[str, Any], node: Mapping[str, Any] | None
    ) -> str | None:
        """Return why a node failed, by its history: its last error can be about something else."""
        if node is None or translate.state_of(claim, node) is not State.ERROR:
            return None
        if minor(self._ironic.version(asked)) < HISTORY:
            return None
        known = claim['uuid'], str(node.get('provision_updated_at'))
        if known not in self._reasons:
            path = f'/nodes/{node["uuid"]}/history'
            try:
                rows = self._ironic.ask(asked, 'GET', path, query={'detail': 'true'})
            except AmphoraComputeError:
                return None
            since = translate.seconds_of(claim.get('created_at'))
            if len(self._reasons) >= _MEMORY:
                self._reasons.clear()
            self._reasons[known] = translate.reason_of(rows.get('history') or (), since)
        return self._reasons[known]


def _powered_off(asked: Asked) -> AmphoraComputeError:
    return asked.error(
        InstanceStateConflict, 'its node is powered off. Resume it.', retryable=False
    )


def _in_state(asked: Asked, state: State) -> AmphoraComputeError:
    """Return the error for an action that the state of an amphora does not allow."""
    passing = state in (State.PENDING, State.BUILDING)
    return asked.error(InstanceStateConflict, f'it is {state.value}.', retryable=passing)
