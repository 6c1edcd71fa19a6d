"""Behaviours of verbs: each runs on a cluster, and answers with plain data."""

from __future__ import annotations

import json
from collections.abc import Callable

from kiln.cluster_service.verbs import run_verb
from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.clusters.road.machines import REFUSING


class VerbRuns(JourneyFixture):
    """Verbs."""

    def test_each_verb_runs_and_its_answer_is_plain_data(self) -> None:
        journey = self.whole_journey()
        if not journey.verbs:
            return
        refused = {}
        for name, answer in journey.verbs.items():
            if isinstance(answer, ClusterDriverDefect):
                self.fail(str(answer))
            if isinstance(answer, Exception):
                refused[name] = f'{name}: {answer}'
            else:
                self.assertEqual(answer, json.loads(json.dumps(answer)), name)
        if self.machine_bench_class() is not None:
            # Arguments that the kit makes up can be wrong.
            verbs = self.driver_class.verbs
            wrong = [
                reason for name, reason in refused.items()
                if not any(one.required for one in verbs[name].parameters)
            ]  # fmt: skip
            self.assertEqual([], wrong, 'A verb fails, although every machine answers.')
        elif refused:
            reason = next(iter(refused.values()))
            raise CannotBeShown(f'nothing runs in the machines of the kit ({reason})')

    def test_arguments_that_its_author_refuses_are_refused(self) -> None:
        opened = self.nodes_driver()
        if not self.refused_arguments:
            self.not_for_this_driver('its author names no arguments that are refused')
        of = self.of_whole(self.a_whole(opened))
        for name, wrong in self.refused_arguments:
            parameters = opened.verbs[name].parameters if name in opened.verbs else ()
            right = {one.name: samples.value(one) for one in parameters if one.required}
            if 'to' in right:
                right['to'] = str(self.new_folder())
            with self.network.playing(REFUSING):
                self._refuses(
                    lambda: run_verb(opened, name, **of, given={**right, **wrong}),  # noqa: B023
                    f'verb {name} with {dict(wrong)}',
                )

    def _refuses(self, call: Callable[[], object], what: str) -> None:
        try:
            call()
        except ClusterDriverDefect as exc:
            self.fail(f'{what}: {exc}')
        except KilnError as exc:
            self.assertEqual([], self.network.asked, f'{what} asks machines, and ends with: {exc}')
        else:
            self.fail(f'{what} is not refused.')
