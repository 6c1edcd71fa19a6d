"""Behaviours of builds that request a fixed address: one has it, and all others nothing."""

from __future__ import annotations

import dataclasses
import functools

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    InvalidBuildRequest,
    PermissionDenied,
)
from kiln.models import BuildRequest, State
from kiln.testing.conformance.behaviours.ports import Attaching
from kiln.testing.conformance.fixture import takes
from kiln.testing.conformance.interleaving import at_once
from kiln.testing.conformance.wording import in_words

_ENDS = frozenset({State.ACTIVE, State.ERROR})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempt:
    """A build at an address: the id that it returned, or its error."""

    key: str
    port_ids: tuple[str, ...] = ()
    amphora_id: str | None = None
    error: AmphoraComputeError | None = None


class FixedAddresses(Attaching, contract=(BuildRequest, ComputeHooks._build)):
    """Fixed addresses."""

    @takes(network_ids=['some'])
    def test_a_build_has_the_fixed_address_that_it_requested_or_is_refused(self) -> None:
        place = self.free_place()
        if built := self.built_at(place):
            self.assert_is_at(place, built)

    @takes(network_ids=['some'])
    def test_the_fixed_address_of_an_instance_is_refused_to_another_build(self) -> None:
        place = self.free_place()
        if user := self.built_at(place):
            self.assert_lost(self.attempt(place, Attempt(key=self.new_key())))
            self.assert_is_at(place, user)
            # The address is in the way of no other build on its network.
            other = self.build_active(network_ids=[place.partition('=')[0]])
            both = self.addresses(user) & self.addresses(other)
            self.assertEqual(both, set(), 'addresses that two amphorae have')

    @takes(network_ids=['some'])
    def test_of_two_builds_at_once_at_one_address_one_has_it_and_the_other_nothing(self) -> None:
        place = self.free_place()
        first = self.built_at(place)
        if first is None:
            return
        self.driver.delete(first)
        self.gone(first)
        ended = self.becomes(
            functools.partial(self.race, place),
            lambda ended: any(one.amphora_id for one in ended),
            'one of two builds at once has the address',
        )
        winners = [one for one in ended if one.amphora_id and self.comes_up(one.amphora_id)]
        self.assertEqual(len(winners), 1, 'the number of builds that have the address')
        self.assert_is_at(place, str(winners[0].amphora_id))
        for loser in ended:
            if loser is not winners[0]:
                self.assert_lost(loser)
                self.assert_given_back(loser)
        self.driver.delete(str(winners[0].amphora_id))
        self.gone(str(winners[0].amphora_id))
        self.assertIsNotNone(self.built_at(place), 'the address can be requested again')

    @takes(network_ids=['some'])
    def test_a_build_at_what_is_not_an_address_is_refused(self) -> None:
        key, place = f'{self.new_key()}-Key', f'{self.own_network_id()}=no-address'
        lost = self.attempt(place, Attempt(key=key))
        if not isinstance(lost.error, InvalidBuildRequest):
            seen = 'it was accepted' if lost.error is None else in_words(lost.error)
            self.broken('InvalidBuildRequest, as no-address is not an address', seen)
        self.assert_nothing_of(lost)

    def own_network_id(self) -> str:
        """Return a network on which a build may choose its address."""
        return self.network_id()

    def free_place(self) -> str:
        """Return a network with an address that an instance there had: ``ID=ADDRESS``."""
        network_id = self.own_network_id()
        had = self.build_active(network_ids=[network_id])
        found = self.driver.get_amphora(amphora_id=had).addresses
        if not found:
            raise CannotBeShown('the backend reports no addresses')
        self.driver.delete(had)
        self.gone(had)
        # A backend can report a network by another name than it was given.
        there = [one for one in found if one.network_id == network_id] or found
        return f'{network_id}={there[0].address}'

    def built_at(self, place: str) -> str | None:
        """Build at an address that is free; return None if no address may be chosen."""

        def look() -> Attempt:
            # The address can still be in use by the port that is being removed.
            return self.attempt(place, Attempt(key=self.new_key()))

        made = self.becomes(
            look,
            lambda one: not isinstance(one.error, BuildConflict),
            'an address that was given back can be requested',
        )
        if made.amphora_id is not None:
            # A backend can accept the build first, and then not allow the choice.
            return made.amphora_id if self.comes_up(made.amphora_id) else None
        if not isinstance(made.error, InvalidBuildRequest | PermissionDenied):
            self.broken('the build has the address, or is refused', in_words(made.error))
        return None

    def race(self, place: str) -> list[Attempt]:
        """Build twice at an address, at the same time, each with a port of its own."""
        made = [Attempt(key=self.new_key(), port_ids=port) for port in self.two_spare_ports()]
        return at_once(*[functools.partial(self.attempt, place, one) for one in made])

    def attempt(self, place: str, made: Attempt) -> Attempt:
        """Build at an address."""
        ports = {'port_ids': made.port_ids} if made.port_ids else {}
        try:
            amphora_id = self.build(build_key=made.key, network_ids=[place], **ports)
        except AmphoraComputeError as exc:
            return dataclasses.replace(made, error=exc)
        return dataclasses.replace(made, amphora_id=amphora_id)

    def comes_up(self, amphora_id: str) -> bool:
        """Wait for the end of a build; return False if it is in error."""
        status = self.becomes(
            lambda: self.driver.status(amphora_id),
            lambda seen: seen.state in _ENDS and seen.task_state is None,
            'a build ends',
        )
        return status.state is State.ACTIVE

    def assert_is_at(self, place: str, amphora_id: str) -> None:
        """Fail unless an instance has the address that was requested."""
        address = place.partition('=')[2]
        self.assertIn(address, self.addresses(amphora_id), 'the addresses of the amphora')

    def assert_lost(self, loser: Attempt) -> None:
        """Fail unless a build was refused because of its address, or ends in error."""
        if loser.amphora_id is not None:
            if self.comes_up(loser.amphora_id):
                self.broken(
                    'BuildConflict, or an amphora in error', f'{loser.amphora_id} is active'
                )
            return
        self.assertIsInstance(loser.error, BuildConflict)
        self.assert_nothing_of(loser)

    def assert_nothing_of(self, lost: Attempt) -> None:
        """Fail unless the error of a build names its key, and nothing has the key."""
        self.assertEqual(lost.error and lost.error.build_key, lost.key, 'build_key')
        found = self.driver.find_build(lost.key)
        self.assertIsNone(found, 'a build that is refused makes nothing')

    def assert_given_back(self, loser: Attempt) -> None:
        """Fail unless another instance can have the ports of a build that lost."""
        if loser.amphora_id is not None:
            self.driver.delete(loser.amphora_id)
            self.gone(loser.amphora_id)
        for port_id in loser.port_ids:
            self.can_be_used_again(port_id)

    def two_spare_ports(self) -> list[tuple[str, ...]]:
        """Return the ports of each of two builds; none if the backend has no two."""
        if 'port_ids' in self.driver.limits.refused_options:
            return [(), ()]
        try:
            return [(port_id,) for port_id in self.two_ports()]
        except CannotBeShown:
            return [(), ()]
