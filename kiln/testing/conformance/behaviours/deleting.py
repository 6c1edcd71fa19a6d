"""Behaviours of deletes: repeatable, and the instance is gone everywhere."""

from __future__ import annotations

from collections.abc import Callable

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Ability, Amphora
from kiln.testing.conformance.fixture import ConformanceFixture, is_gone, needs
from kiln.testing.conformance.wording import in_words


class Deleting(ConformanceFixture, contract=(AmphoraComputeDriver.delete, ComputeHooks._delete)):
    """Deleting."""

    def test_a_deleted_instance_has_no_status(self) -> None:
        amphora_id = self.deleted()
        self.vanishes(
            lambda: self.seen(amphora_id),
            'status() of a deleted instance raises InstanceNotFoundError',
        )

    def test_a_deleted_instance_cannot_be_fetched(self) -> None:
        amphora_id = self.deleted()
        self.becomes(lambda: self.got(amphora_id=amphora_id), is_gone)

    def test_a_deleted_instance_is_not_listed(self) -> None:
        amphora_id = self.deleted()
        self.vanishes(lambda: [one for one in self.driver.list_amphorae() if one.id == amphora_id])

    def test_a_deleted_instance_is_not_found_by_its_name(self) -> None:
        name = self.new_key()
        self.deleted(name=name)
        self.vanishes(lambda: self.got(name))

    def test_a_deleted_instance_is_not_found_by_its_key(self) -> None:
        key = self.new_key()
        self.deleted(build_key=key)
        self.vanishes(lambda: self.driver.find_build(key))

    def test_a_deleted_instance_is_left_out_of_statuses(self) -> None:
        amphora_id = self.deleted()
        self.vanishes(lambda: list(self.driver.statuses([amphora_id]).values()))

    def test_an_instance_stays_gone(self) -> None:
        amphora_id = self.deleted()
        self.gone(amphora_id)
        self.pass_time(0.1)
        self.gone_already(amphora_id)

    def test_deleting_again_is_a_success(self) -> None:
        amphora_id = self.deleted()
        self.driver.delete(amphora_id)

    def test_deleting_an_instance_that_is_gone_is_a_success(self) -> None:
        amphora_id = self.deleted()
        self.gone(amphora_id)
        self.driver.delete(amphora_id)

    def test_deleting_an_unknown_instance_is_a_success(self) -> None:
        self.driver.delete(self.unknown_id())

    def test_deleting_one_instance_leaves_the_others(self) -> None:
        other = self.build()
        amphora_id = self.deleted()
        self.gone(amphora_id)
        self.assert_exists(other)

    def test_an_instance_that_was_just_requested_can_be_deleted(self) -> None:
        amphora_id = self.build()
        self.driver.delete(amphora_id)
        self.gone(amphora_id)

    @needs(Ability.SUSPEND)
    def test_a_suspended_instance_can_be_deleted(self) -> None:
        self.deleted_after(self.driver.suspend)

    @needs(Ability.REBOOT)
    def test_an_instance_that_reboots_can_be_deleted(self) -> None:
        self.deleted_after(self.driver.reboot)

    def test_a_delete_can_be_given_a_timeout(self) -> None:
        amphora_id = self.build()
        self.driver.delete(amphora_id, timeout=self.timeout_s)
        self.gone(amphora_id)

    def gone_already(self, amphora_id: str) -> None:
        """Fail if the backend knows the instance."""
        seen = self.seen(amphora_id)
        if not is_gone(seen):
            self.broken(f'amphora {amphora_id} is gone', in_words(seen))

    def got(self, *name: str, **by: str) -> Amphora | None:
        """Return the description of an instance, or None if it does not exist."""
        try:
            return self.driver.get_amphora(*name, **by)
        except InstanceNotFoundError:
            return None

    def deleted(self, **given: str) -> str:
        """Build an instance, delete it, and return its id."""
        amphora_id = self.build_active(**given)
        self.driver.delete(amphora_id)
        return amphora_id

    def deleted_after(self, act: Callable[[str], None]) -> None:
        """Delete an instance while another operation on it is in progress."""
        amphora_id = self.build_active()
        act(amphora_id)
        self.driver.delete(amphora_id)
        self.gone(amphora_id)
