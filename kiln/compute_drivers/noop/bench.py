"""Conformance bench of the Noop driver: scripted faults of the simulated cloud."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import uuid
from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown, Refusal
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.compute_drivers.noop.simulation.groups import Groups
from kiln.compute_drivers.noop.simulation.ports import Ports
from kiln.compute_drivers.noop.simulation.state_machine import HARD_REBOOT
from kiln.exceptions import InsufficientCapacity, QuotaExceeded
from kiln.models import Ability, BuildRequest, ImageFacts, Resource, State

#: How the simulated cloud refuses a call; its other errors are those of a right request.
_REFUSALS = {Refusal.CONFLICT: Action.CONFLICT, Refusal.BROKEN: Action.TIMEOUT_BEFORE}
#: Seconds for what takes the simulated cloud no time, on a busy machine.
_MARGIN_S = 10.0
#: Longer than any deadline.
_SILENCE_S = 3600.0
#: Security groups of a cloud that has any, and the ports that they open to their members.
_GROUP_PORTS = {'kit-web': ('80/tcp', '443/tcp'), 'kit-names': ('53/tcp', '53/udp')}
#: A test can simulate a cloud that never finishes.
_MOST_S = 600.0


class NoopBench(Bench):
    """Scripts the faults of one cloud, and has its ports, its networks and its times."""

    page_size = 20
    # The cloud accepts at once, and a kit on the real clock waits as long.
    short_s = 0.2
    logs_boots = True
    reports_ports = reports_networks = True
    states = MappingProxyType({one.value: one for one in (State.STOPPED, State.ERROR)})
    fault_codes = MappingProxyType(
        {
            'No valid host was found.': InsufficientCapacity.code,
            'Exceeded maximum number of retries.': InsufficientCapacity.code,
            'Quota exceeded for cores.': QuotaExceeded.code,
        }
    )

    def __init__(self, driver: NoopDriver) -> None:
        super().__init__(driver)
        self._cloud = driver.cloud
        self._cloud.machines.page = self.page_size
        offered = self._cloud.catalogue
        # A cloud without a list accepts any id.
        self.port_ids = ('port-1', 'port-2') if offered.ports is None else tuple(offered.ports)
        self.network_ids = ('net-1',) if offered.networks is None else tuple(offered.networks)
        self.knows_ports = offered.ports is not None
        self.knows_networks = offered.networks is not None
        self.hosts_per_zone = offered.hosts_per_zone
        if offered.sec_groups is None and not offered.group_ports:
            # Made like the ports: no build of the kit has these groups.
            offered.group_ports.update(_GROUP_PORTS)
        self.group_ports = dict(offered.group_ports)
        self.images = tuple(
            ImageFacts(id=name, name=name, properties=offered.image_properties.get(name, {}))
            for name in (('image-1', 'image-2') if offered.images is None else offered.images)
        )

        # The longest course of a behaviour is a build, an act on it, and its end.
        latencies = self._cloud.gate.latencies
        longest_s = max(dataclasses.asdict(latencies).values()) * (1 + latencies.jitter)
        self.timeout_s = min(_MARGIN_S + 3 * longest_s, _MOST_S)

    def another_driver(self) -> NoopDriver:
        if self._cloud.store.shared:
            # Then the fixture opens the file once more.
            raise CannotBeShown('a file is opened once more')
        other: NoopDriver = type(self.driver)()
        other.cloud, other.clock = self._cloud, self._cloud.clock
        other.name, other.owner = self.driver.name, self.driver.owner
        other.missing_abilities = self.driver.missing_abilities
        return other

    def name_image(self, name: str, image_id: str | None) -> None:
        self._cloud.name_image(name, image_id)

    def lacking(self, amphora_id: str, request: BuildRequest) -> Collection[str]:
        # The cloud keeps digests of what it must not show. Written once more, so that a mistake
        # of the driver is not made here, too.
        has = self.driver.get_amphora(amphora_id=amphora_id).raw
        user_data = request.user_data
        wanted = {
            'keys': len(request.keys),
            'sec_groups': list(request.sec_groups),
            'files': {
                file.path: {'sha256': file.digest, 'mode': f'{file.mode:04o}', 'owner': file.owner}
                for file in request.files
            },
            'user_data_sha256': user_data and hashlib.sha256(user_data).hexdigest()[:12],
        }
        return {
            name.removesuffix('_sha256')
            for name, value in wanted.items()
            if (has.get(name) or None) != (value or None)
        }

    def host_of(self, amphora_id: str) -> str:
        return str(self.driver.get_amphora(amphora_id=amphora_id).raw['host'])

    def reboots_hard(self, amphora_id: str) -> bool:
        task = self.driver.status(amphora_id).task_state
        if task is None:
            raise CannotBeShown('a reboot takes no time in this cloud')
        return bool(task == HARD_REBOOT.task)

    def make_unowned(self, name: str) -> str:
        zones = self._cloud.catalogue.zones
        return self._cloud.make_unowned(
            name,
            metadata={'made': 'by hand'},
            image_id=self.images[0].id,
            availability_zone=zones[0] if zones else None,
        )

    def leave_resources(self) -> Sequence[Resource]:
        cloud, key = self._cloud, f'left-{uuid.uuid4().hex[:8]}'
        request = BuildRequest(build_key=key, name=key, owner=self.driver.owner)
        leak = Fault(call=Call.BUILD.label, action=Action.LEAK, times=1)
        lost = cloud.accept(request, cloud.gate.now(), leak)
        (address,) = self.driver.get_amphora(amphora_id=lost).addresses
        cloud.vanish(lost)
        ids = {Ports.KIND: address.port_id or ''}
        if Ability.CREATE_SERVER_GROUP in self.driver.abilities:
            ids[Groups.KIND] = self.driver.create_server_group(key, 'affinity').id
        return [Resource(kind=kind, id=id_, owner=self.driver.owner) for kind, id_ in ids.items()]

    def refuse(self, call: Call) -> None:
        self._next(call, Action.REFUSE)

    def refuse_for(self, call: Call, reason: Refusal) -> None:
        if reason not in _REFUSALS:
            raise CannotBeShown(f'the simulated cloud does not refuse a call as {reason.value}')
        self._next(call, _REFUSALS[reason])

    def lose_answer(self, call: Call) -> None:
        self._next(call, Action.LOSE_ANSWER)

    def fall_silent(self, call: Call) -> None:
        self._next(call, Action.HANG, seconds=_SILENCE_S)

    def outage(self) -> contextlib.AbstractContextManager[None]:
        return self._cloud.outage()

    def limit_rate(self, call: Call, retry_after: float) -> None:
        self._next(call, Action.RATE_LIMIT, retry_after=retry_after)

    def exhaust_quota(self) -> None:
        self._next(Call.BUILD, Action.QUOTA)

    def exhaust_capacity(self) -> None:
        self._next(Call.BUILD, Action.CAPACITY)

    def fail_build(self, text: str) -> None:
        self._next(Call.BUILD, Action.ERROR, text=text)

    def stall_build(self) -> None:
        self._next(Call.BUILD, Action.STUCK)

    def vanish(self, amphora_id: str) -> None:
        self._cloud.vanish(amphora_id)

    def enter_state(self, amphora_id: str, state: str) -> None:
        cloud = self._cloud
        {State.STOPPED: cloud.stop, State.ERROR: cloud.crash}[State(state)](amphora_id)

    def _next(self, call: Call, action: Action, **facts: Any) -> None:
        self._cloud.faults.add(Fault(call=call.label, action=action, times=1, **facts))
