"""The Docker driver: the hooks of the contract as requests to a container engine."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.docker import names, settings, states, translate
from kiln.compute_drivers.docker.api import events, health, networks, resources
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.compute_drivers.docker.api.errors import Trouble, trouble_in
from kiln.compute_drivers.docker.api.images import Images
from kiln.compute_drivers.docker.building import body, seed
from kiln.compute_drivers.docker.building.builds import Builds
from kiln.compute_drivers.docker.reboots import Reboots
from kiln.exceptions import (
    AmphoraComputeError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    NotSuspendedError,
    ResourceNotFoundError,
)
from kiln.models import (
    Amphora,
    AmphoraType,
    Attachment,
    BuildRequest,
    Changes,
    DriverHealth,
    ImageFacts,
    ImageFile,
    Limits,
    Resource,
    State,
)

#: Build options that a container engine has no counterpart for.
_REFUSED = frozenset({'sec_groups', 'port_ids', 'server_group_id'})
#: Build options that need a seed.
_SEEDED = frozenset({'keys', 'config_drive_files', 'user_data'})


class DockerDriver(AmphoraComputeDriver):
    """Builds amphorae as containers of one Docker Engine, or of Podman.

    Engines do not have security groups, server groups, or ports that exist before their
    container, so builds with these are refused. A container cannot be rebuilt under its id.
    Files, keys and user data need a seed: a backend with ``seed = none`` refuses them.
    """

    options = lazy_options('kiln.compute_drivers.docker.conf')
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.docker.bench:DockerBench'
    name = 'docker'
    most_read_by_id = 3

    def __init__(self, conf: Any, *, name: str = 'docker', clock: Clock = SYSTEM_CLOCK) -> None:
        self.name, self.clock = name, clock
        self._settings = settings.read(conf, name)
        self._engine = Engine(conf, clock)
        self._images = Images(self._engine, self._settings, clock)
        self._builds = Builds(self._engine, self._images, self._settings, clock)
        self._reboots = Reboots()
        self._clocks = health.Clocks(self._engine, clock)

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        driver = cls(conf, name=name, clock=clock)
        driver.owner = owner
        return driver

    @property
    def limits(self) -> Limits:
        refused = _REFUSED | (_SEEDED if self._settings.seed == seed.NONE else frozenset())
        return Limits(amphora_types=frozenset({AmphoraType.CONTAINER}), refused_options=refused)

    def close(self) -> None:
        self._engine.close()

    # ---- build, delete, find ---------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        return self._builds.build(request)

    def _delete(self, amphora_id: str) -> None:
        self._builds.delete(Asked.about('delete', amphora_id))

    def _get(self, amphora_id: str) -> Amphora:
        return self._told(self._container(Asked.about('get', amphora_id)))

    def _list(self, owner: str) -> Iterable[Amphora]:
        asked = Asked(verb='list', subject=f'the amphorae of {owner}')
        return self._listed(asked, {names.OWNER: owner})

    def _find(self, name: str) -> Sequence[Amphora]:
        asked = Asked(verb='find', subject=name)
        return self._listed(asked, {names.OWNER: self.owner, names.NAME: name})

    def _find_build(self, build_key: str) -> Amphora | None:
        asked = Asked(verb='look for build', subject=build_key, build_key=build_key)
        found = self._builds.find(asked, self.owner)
        return None if found is None else self._told(found)

    # ---- status ----------------------------------------------------------

    def _changes(self, since: str) -> Changes:
        asked = Asked(verb='read', subject='changes')
        # Read the events first: a later event is reported by the next call.
        told = events.ask(self._engine, asked, self.owner, since, self._clocks.engine_now(asked))
        if told.complete:
            everything = super()._changes(since)
            return Changes(statuses=everything.statuses, cursor=told.cursor, complete=True)
        found = self._statuses(told.changed)
        # The event of a container that is already gone can still be missing.
        missing = [one for one in told.changed if one not in found]
        return Changes(
            statuses=tuple(found.values()),
            gone=(*told.gone, *missing),
            cursor=told.cursor,
        )

    def _check(self) -> DriverHealth:
        return health.look(self._engine, self.clock, privileged=self._settings.privileged)

    # ---- execution state -------------------------------------------------

    def _suspend(self, amphora_id: str) -> None:
        asked = Asked.about('suspend', amphora_id)
        self._own(asked)
        try:
            self._engine.ask(asked, Session.pause, amphora_id)
        except InstanceStateConflict as exc:
            seen = self._status(amphora_id)
            if seen.task_state is not None:
                why = f'it is busy {seen.task_state}.'
                raise asked.error(InstanceStateConflict, why, retryable=True) from exc
            if seen.state is not State.SUSPENDED:
                raise

    def _resume(self, amphora_id: str) -> None:
        asked = Asked.about('resume', amphora_id)
        if self._own(asked).state is not State.SUSPENDED:
            raise asked.error(NotSuspendedError, 'it is not suspended.')
        self._engine.ask(asked, Session.unpause, amphora_id)

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        asked = Asked.about('reboot', amphora_id)
        amphora = self._own(asked)
        if amphora.state is State.SUSPENDED:
            raise asked.error(InstanceStateConflict, 'it is suspended; resume it first.')
        if amphora.state in (State.BUILDING, State.DELETING):
            # A retry can succeed after a build, but not after a delete.
            busy = amphora.state is State.BUILDING
            raise asked.error(InstanceStateConflict, f'it is {amphora.state}.', retryable=busy)
        grace_s = 0 if hard else self._settings.stop_timeout
        ask = functools.partial(self._engine.ask_patiently, asked)
        self._reboots.begin(amphora_id, lambda: ask(Session.restart, amphora_id, timeout=grace_s))

    # ---- networks --------------------------------------------------------

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        asked = Asked.about(f'attach network {network_id} to', amphora_id, network_id)
        amphora = self._own(asked)
        if address is not None:
            # In the notation of the engines, for the comparison below.
            address = str(ipaddress.ip_address(address))
        full_id = self._network(asked, network_id)
        hung = body.Hung(network=network_id, address=address)
        self._builds.connect(asked, amphora_id, hung, names.host_name(amphora.name))
        found = translate.attachment_of(amphora_id, network_id, self._container(asked), full_id)
        if found is None:
            raise asked.error(InstanceStateConflict, 'the network was detached again meanwhile.')
        if address is not None and address not in found.addresses:
            has = ', '.join(found.addresses) or 'none'
            raise asked.error(
                InstanceStateConflict,
                f'it is attached already, with another address: {has}. Detach it first.',
            )
        return found

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        asked = Asked.about(f'detach network {network_id} from', amphora_id, network_id)
        self._own(asked)
        try:
            self._network(asked, network_id)
            disconnect = Session.disconnect_container_from_network
            self._engine.ask(asked, disconnect, amphora_id, network_id)
        except ResourceNotFoundError:
            return
        except AmphoraComputeError as exc:
            if trouble_in(exc.fault) not in (Trouble.NOT_CONNECTED, Trouble.NO_NETWORKING):
                raise

    def _network(self, asked: Asked, network_id: str) -> str:
        if not names.is_network(network_id):
            raise asked.error(
                ResourceNotFoundError, f'{network_id!r} cannot be the name of a network.'
            )
        found = self._engine.ask(asked, Session.networks, filters={'name': [network_id]})
        named = [one['Id'] for one in found if one.get('Name') == network_id]
        # A network given by its id needs no lookup.
        return str(named[0]) if named else network_id

    # ---- validation, resources, console ----------------------------------

    def _validate_flavor(self, flavor: str) -> None:
        self._builds.flavor(Asked.of('use flavor', flavor), flavor)

    def _validate_image(self, image_id: str) -> None:
        self._images.validate(Asked.of('use image', image_id), image_id)

    def _describe_image(self, image_id: str) -> ImageFacts:
        return self._images.facts(Asked.of('use image', image_id), image_id)

    def _validate_zone(self, availability_zone: str) -> None:
        if availability_zone not in self._settings.zones:
            asked = Asked.of('use zone', availability_zone)
            raise asked.error(
                InvalidRequest,
                f'there is no such zone; the zones are {", ".join(self._settings.zones)}.',
            )

    def _validate_network(self, network_id: str) -> None:
        networks.validate(self._engine, Asked.of('use network', network_id), network_id)

    def _list_zones(self) -> Sequence[str]:
        return tuple(self._settings.zones)

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        return resources.owned(self._engine, owner)

    def _delete_resource(self, resource: Resource) -> None:
        resources.delete(self._engine, resource)

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        asked = Asked.about('read the console log of', amphora_id)
        self._own(asked)
        tail = 'all' if lines is None else lines
        said: bytes = self._engine.ask(asked, Session.logs, amphora_id, tail=tail)
        return said.decode('utf-8', 'replace')

    def import_image(self, image: ImageFile) -> str:
        return self._images.import_file(image)

    # ---- helpers ---------------------------------------------------------

    def _own(self, asked: Asked) -> Amphora:
        return self._told(self._container(asked))

    def _container(self, asked: Asked) -> Mapping[str, Any]:
        """Return the engine's answer about a container of kiln; others are never inspected."""
        amphora_id = asked.amphora_id
        assert amphora_id is not None
        if names.is_id(amphora_id):
            found: Mapping[str, Any] = self._engine.ask(
                asked, Session.inspect_container, amphora_id
            )
            if translate.owner_of(found) is not None:
                return found
        raise asked.error(InstanceNotFoundError, 'kiln has no container with that id.')

    def _listed(self, asked: Asked, labels: Mapping[str, str]) -> list[Amphora]:
        wanted = {'label': [f'{key}={value}' for key, value in labels.items()]}
        entries = self._engine.ask(asked, Session.containers, all=True, filters=wanted)
        found = []
        for entry in entries:
            said = names.labels_in(entry)
            # Podman reads some characters of a filter as patterns.
            if not labels.items() <= said.items():
                continue
            condition = states.listed(entry, has_health=names.HEALTH in said)
            if condition is not None:
                found.append(self._amphora(entry, condition))
                continue
            try:
                # The list omits the details of a failure.
                found.append(self._get(entry['Id']))
            except InstanceNotFoundError:
                continue
        return found

    def _told(self, answer: Mapping[str, Any]) -> Amphora:
        return self._amphora(answer, states.told(answer))

    def _amphora(self, answer: Mapping[str, Any], condition: states.Condition) -> Amphora:
        rebooting = answer['Id'] in self._reboots
        return translate.amphora_of(answer, condition, rebooting=rebooting)
