"""Behaviours on the user's way: file, plan, checks, engine and what is shown in the end."""

from __future__ import annotations

from kiln.cluster_drivers.answers import checked
from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.clusters.road.journey import CREATE

#: Steps that a driver can refuse, because a node must stay.
_REFUSABLE = frozenset({'shrink'})


class UserWay(JourneyFixture):
    """The user's way."""

    def test_a_file_with_several_roles_becomes_a_cluster(self) -> None:
        journey = self.journey()
        self.assertEqual(
            '', journey.steps[CREATE], 'Set groups if the driver needs other roles or counts.'
        )
        counts = {samples.group_of(role): count for role, count in self.groups.items() if count}
        self.assertEqual(counts, journey.ready)

    def test_each_later_change_of_it_succeeds(self) -> None:
        journey = self.whole_journey()
        failed = {
            title: reason for title, reason in journey.steps.items()
            if reason and not (title in _REFUSABLE and 'the driver allows' in reason)
        }  # fmt: skip
        self.assertEqual({}, failed)

    def test_a_driver_needs_no_memory_of_earlier_calls(self) -> None:
        expected = self.whole_journey()
        self.assertEqual(
            expected.steps, self.journey(fresh=True).steps,
            'It ends in another way if the driver is opened again for each call, as by another '
            'process.',
        )  # fmt: skip

    def test_each_answer_on_the_way_is_of_the_kind_that_the_contract_names(self) -> None:
        journey = self.journey()
        wrong = [str(call.error) for call in journey.calls if _defect(call.error)]
        self.assertEqual([], wrong)
        for call in journey.calls:
            if call.error is None:
                try:
                    checked(self.driver_class.name, call.method, call.answer)
                except ClusterDriverDefect as exc:
                    self.fail(str(exc))


def _defect(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, KilnError)
