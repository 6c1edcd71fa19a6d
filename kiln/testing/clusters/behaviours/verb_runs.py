"""Behaviours of verbs: each runs on a cluster, and answers with plain data."""

from __future__ import annotations

import json

from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.journeys import JourneyFixture


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
