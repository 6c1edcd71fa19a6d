"""Behaviours of programs that build clusters: what only a program can do wrong."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.command.command_driver import CommandDriver
from kiln.cluster_drivers.command.documents import Secrets
from kiln.cluster_drivers.command.protocol import REFUSED, Verb, changes, lost
from kiln.clusters.models import Cluster
from kiln.clusters.placing.counts import resized
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.programs.isolation import LATER
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.program_bench import Once, ProgramBench


class ProgramConduct(OwnEngine):
    """Conduct of its program."""

    def setUp(self) -> None:
        super().setUp()
        if not issubclass(self.driver_class, CommandDriver):
            self.not_for_this_driver('the engine of the driver is not a program')

    # ---- what it prints ----------------------------------------------------------------------

    def test_it_prints_nothing_but_lines_of_the_protocol(self) -> None:
        wrong = [f'{verb}: {one.output.nonsense}' for verb, one in self._life()
                 if one.output.nonsense]  # fmt: skip
        self.none_of(wrong, 'Print JSON objects alone; write everything else to stderr.')

    def test_each_run_that_is_done_ends_with_its_result(self) -> None:
        wrong = [f'{verb} with status {one.status}' for verb, one in self._life()
                 if one.status == 0 and not _ends_with_result(one)]  # fmt: skip
        self.none_of(wrong, 'The last line of a run that is done is its result.')

    def test_the_verbs_of_a_life_are_done(self) -> None:
        wrong = [f'{verb}: status {one.status}, {one.output.error or one.errors.decode()[-200:]}'
                 for verb, one in self._life() if one.status]  # fmt: skip
        self.none_of(wrong, 'A verb fails without a reason to.')

    def test_no_secret_is_printed(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        secrets = Secrets(self.context(), cluster, self._bench.driver.parameters)
        printed = {
            verb.value: (one.content + one.errors).decode(errors='replace')
            for verb, one in self._life(failing=True)
        }
        told = [verb for verb, text in printed.items() if secrets.told_in(text)]
        self.none_of(
            told, 'kiln masks secrets where it sees them; the program must not print any.'
        )

    def test_fields_that_it_does_not_know_are_ignored(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        for verb in (Verb.CREATE, Verb.STATUS):
            once = self._once(verb, cluster, kit={'new': [1]})
            self.assertEqual(
                0, once.status, f'{verb} fails at a field that is new: {once.errors!r}'
            )

    # ---- how it ends -------------------------------------------------------------------------

    def test_no_process_is_left_behind(self) -> None:
        wrong = [f'{verb} left {one.left}' for verb, one in self._life() if one.left]
        self.none_of(wrong, 'A program waits for all that it has started.')

    def test_it_ends_when_it_is_told_to(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        run = self._bench.begin(Verb.CREATE, cluster, self.context())
        self._bench.wait_for_output(run)
        run.stop()
        run.wait()
        self.assertNotEqual(
            -9, self._bench.ended(run).status,
            f'It was sent TERM, and had to be killed {self._bench.driver.grace_s:g} s later.',
        )  # fmt: skip

    # ---- repeats -----------------------------------------------------------------------------

    def test_a_request_that_is_repeated_changes_nothing(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        self._once(Verb.CREATE, cluster)
        before = sorted(self.bench.resources())
        self.assertEqual(0, self._once(Verb.CREATE, cluster).status)
        now = sorted(self.bench.resources())
        self.assertEqual(before, now, 'The same request_id has an effect once.')

    def test_a_request_that_was_killed_is_finished_by_the_next(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        run = self._bench.begin(Verb.CREATE, cluster, self.context())
        self._bench.wait_for_output(run)
        run.kill()
        self.assertEqual(0, self._once(Verb.CREATE, self._with_state(cluster, run.number)).status)
        self.none_of(self.wrongs(cluster), 'What stands is not what was asked for.')

    def _with_state(self, cluster: Cluster, number: int) -> Cluster:
        """Return a cluster with the state that a run has printed."""
        state = self._bench.state_of(cluster, number)
        return cluster if state is None else dataclasses.replace(cluster, driver_state=state)

    def test_it_says_later_while_its_engine_is_away(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        self.bench.go_away()
        for verb in (Verb.CREATE, Verb.STATUS):
            once = self._once(verb, cluster)
            self.assertEqual(
                LATER, once.status,
                f'{verb}: the engine is away, and the program ends with status {once.status}.',
            )  # fmt: skip

    def test_it_refuses_what_it_cannot_do_before_it_changes_anything(self) -> None:
        if 'resize' not in {cap.value for cap in self.driver_class.capabilities}:
            self.not_for_this_driver('the driver cannot resize')
        cluster = self.record(self.spec(), 'kit-one')
        self._once(Verb.CREATE, cluster)
        before = sorted(self.bench.resources())
        group = self.largest(cluster.spec).name
        remove = {'group': group, 'nodes': ['kit-no-such-node']}
        once = self._once(Verb.UPDATE, cluster, kind='resize', remove=remove)
        self.assertEqual(REFUSED, once.status, 'A node that does not exist cannot be removed.')
        self.assertEqual(before, sorted(self.bench.resources()))

    # ---- plans -------------------------------------------------------------------------------

    def test_a_plan_changes_nothing(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        for kind in (Verb.CREATE, Verb.UPDATE):
            before = sorted(self.bench.resources())
            self._planned(cluster, kind)
            now = sorted(self.bench.resources())
            self.assertEqual(before, now, f'A plan of {kind} has changed the engine.')
            self._once(Verb.CREATE, cluster)

    def test_a_plan_says_what_would_change_and_nothing_else(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        self.assertTrue(self._planned(cluster, Verb.CREATE), 'A new cluster is a change.')
        self._once(Verb.CREATE, cluster)
        self.none_of(self._planned(cluster, Verb.UPDATE), 'Nothing would change.')
        other = self.record(self.other_spec(), 'kit-one')
        self.assertTrue(self._planned(other, Verb.UPDATE), 'Other values are a change.')

    def test_a_plan_says_which_changes_lose_nodes(self) -> None:
        cluster = self.record(self.spec(), 'kit-one')
        group = self.largest(cluster.spec)
        if group.shape.count < 2:
            raise CannotBeShown('no group of the cluster has two nodes')
        result = self._plan(cluster, Verb.CREATE)
        self.assertEqual(0, lost(result), 'A new cluster loses nothing.')
        made = self._once(Verb.CREATE, cluster)
        cluster = dataclasses.replace(cluster, driver_state=made.output.state or {})
        fewer = dataclasses.replace(group, shape=resized(group.shape, group.shape.count - 1))
        groups = tuple(fewer if one is group else one for one in cluster.spec.groups)
        spec = dataclasses.replace(cluster.spec, groups=groups)
        result = self._plan(dataclasses.replace(cluster, spec=spec), Verb.UPDATE)
        self.assertGreater(
            lost(result), 0, 'A node is lost: say in "lost" how many of the changes lose some.'
        )

    def _planned(self, cluster: Cluster, kind: Verb) -> Sequence[str]:
        return changes(self._plan(cluster, kind))

    def _plan(self, cluster: Cluster, kind: Verb) -> Mapping[str, Any]:
        if Verb.PLAN not in self._bench.driver.verbs_known:
            self.not_for_this_driver('its program has no verb "plan"')
        once = self._once(Verb.PLAN, cluster, kind=kind.value)
        self.assertEqual(0, once.status, f'The plan of {kind} failed: {once.errors!r}')
        return once.output.result or {}

    # ---- runs --------------------------------------------------------------------------------

    @property
    def _bench(self) -> ProgramBench:
        assert isinstance(self.bench, ProgramBench)
        return self.bench

    def _once(self, verb: Verb, cluster: Cluster, **more: object) -> Once:
        return self._bench.once(verb, cluster, self.context(), **more)

    def _life(self, *, failing: bool = False) -> Iterator[tuple[Verb, Once]]:
        """Run the program once for each verb of a life."""
        cluster = self.record(self.spec(), 'kit-one')
        if failing:
            try:
                self.bench.fail('no room for the kit')
            except CannotBeShown:
                pass
            else:
                yield Verb.CREATE, self._once(Verb.CREATE, cluster)
        plan = {Verb.PLAN} & self._bench.driver.verbs_known
        for verb in (*plan, Verb.CREATE, Verb.STATUS, Verb.UPDATE, Verb.DELETE):
            once = self._once(verb, cluster)
            state = once.output.state
            if state is not None:
                cluster = dataclasses.replace(cluster, driver_state=state)
            yield verb, once


def _ends_with_result(once: Once) -> bool:
    lines = [line for line in once.content.splitlines() if line.strip()]
    try:
        return bool(lines) and json.loads(lines[-1]).get('type') == 'result'
    except (ValueError, AttributeError):
        return False
