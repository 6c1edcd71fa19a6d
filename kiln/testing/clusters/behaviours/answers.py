"""Behaviours of driver answers: repeatable, prompt, and free of secrets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import logging
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Deadline, deadline_scope
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.expectations import Change
from kiln.cluster_drivers.monitor import Gauge
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import (
    Bootstrap,
    Cap,
    Drained,
    Readiness,
    StatusReport,
    join_token,
)
from kiln.clusters.exceptions import ClusterDriverDefect, ClusterDriverError, Problem
from kiln.clusters.models import Node
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers import validation
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import KilnError
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machines import REFUSING, SILENT

_NODE = samples.node('kit-1')
#: Real seconds between two looks at the time.
_GLANCE_S = 0.02
#: Where a problem can be in a cluster file.
_PLACE = r'^(?:parameters|nodegroups|[a-z_]+)(?:\[[^][]+\])?(?:\.[a-z_]+)*$'


class Answers(ClusterFixture):
    """Answers."""

    def setUp(self) -> None:
        super().setUp()
        # A driver that waits is to cost no time, whichever method does.
        self.enterContext(self.network.playing())

    # ---- what a machine is given -------------------------------------------------

    def test_bootstrap_of_one_attempt_is_the_same_in_each_call(self) -> None:
        opened = self.nodes_driver()
        first = self.bootstrap(opened)
        self.assertIsInstance(first, Bootstrap)
        self.assertEqual(first, self.bootstrap(opened))
        self.assertEqual(first, self.bootstrap(self.nodes_driver()))

    def test_what_a_node_is_given_fits_the_limits_of_backends(self) -> None:
        given = self.bootstrap(self.nodes_driver())
        arguments = {
            'build_key': 'kit-1',
            'user_data': given.user_data,
            'config_drive_files': given.config_drive_files,
        }
        validation.build_request(NoopDriver.limits, arguments, owner='kit')

    def test_nothing_is_built_without_a_required_parameter(self) -> None:
        opened = self.nodes_driver()
        needed = [
            name for name, one in opened.template_definition.parameters.items() if one.required
        ]
        if not needed:
            return
        bare = samples.cluster(self.driver_class, MachineSpec(), 3)
        with self.assertRaises(ClusterDriverError) as caught:
            opened.bootstrap(context=samples.context(), cluster=bare, node=samples.node(bare.id))
        self.assertTrue(any(name in str(caught.exception) for name in needed), caught.exception)

    def bootstrap(self, opened: NodeClusterDriver, node: Node = _NODE) -> Bootstrap:
        """Return what a node is given."""
        return opened.bootstrap(**self.asked(opened), node=node)

    # ---- secrets -----------------------------------------------------------------

    def test_secrets_are_neither_logged_nor_shown(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_cluster(opened, **samples.secrets_of(opened))
        of: Any = {'context': samples.context(_NODE), 'cluster': cluster}
        heard = io.StringIO()
        handler = logging.StreamHandler(heard)
        logging.getLogger().addHandler(handler)
        self.addCleanup(logging.getLogger().removeHandler, handler)
        told = [
            repr(opened.bootstrap(**of, node=_NODE)),
            repr(opened.validate(**of, plan=samples.creation(cluster))),
            repr(opened.update_cluster_status(**of)),
            *heard.getvalue().splitlines(),
        ]
        for secret in (samples.SECRET, join_token(of['context'], _NODE)):
            self.assertEqual([], [line for line in told if secret in line])

    # ---- polls -------------------------------------------------------------------

    def test_readiness_of_a_node_is_reported_soon(self) -> None:
        opened = self.nodes_driver()
        self._look(Readiness, lambda node: opened.is_ready(**self.asked(opened), node=node))

    def test_draining_of_a_node_is_reported_soon(self) -> None:
        opened = self.nodes_driver()
        self._look(Drained, lambda node: opened.drain(**self.asked(opened), node=node))

    def _look(self, kind: type, look: Callable[[Node], object]) -> None:
        for one in (_NODE, dataclasses.replace(_NODE, address=None)):
            with self.network.playing(SILENT), self.soon('The poll'), self._limited():
                try:
                    found = look(one)
                except KilnError:
                    continue  # counts as not ready or not drained
            self.assertIsInstance(found, kind)

    def _limited(self) -> contextlib.AbstractContextManager[None]:
        """Set the deadline of a poll, by the time that passes while a driver waits."""
        return deadline_scope(Deadline.after(self.look_s, self.network.clock))

    def test_tending_ends_by_its_deadline_and_reports_trouble_as_an_error(self) -> None:
        opened = self.nodes_driver()
        with self.network.playing(SILENT), self.soon('Tending'), self._limited():
            try:
                opened.tend(**self.asked(opened))
            except ClusterDriverError as exc:
                self.assertTrue(exc.reason, 'the error has a reason that operators can read')

    def test_measuring_never_waits_and_never_fails(self) -> None:
        opened = self.any_driver()
        if Cap.MONITOR not in opened.capabilities:
            return
        monitor = opened.get_monitor(**self.asked(opened))
        self.assertIsNotNone(monitor, 'A driver without a monitor does not override get_monitor.')
        assert monitor is not None
        with self.soon('Reading the monitor'):
            gauge = Gauge(monitor, timeout_s=self.look_s, clock=_Passing(self.network.clock))
            readings = gauge.read()
        self.assertEqual(
            [one.name for one in monitor.metrics], [one.metric.name for one in readings]
        )

    # ---- validation and reports --------------------------------------------------

    def test_a_valid_cluster_has_no_problems(self) -> None:
        opened = self.any_driver()
        of = self.asked(opened)
        found = opened.validate(**of, plan=samples.creation(of['cluster']))
        self.assertEqual([], list(found))

    def test_validating_has_no_effect(self) -> None:
        opened = self.any_driver()
        of = dict(self.asked(opened))
        of['plan'] = samples.creation(of['cluster'])
        before = set(threading.enumerate()), pickle.dumps(of['cluster'])
        with self.soon('Validating'):
            found = [list(opened.validate(**of)) for _ in range(2)]
        self.assertEqual(found[0], found[1])
        self.assertEqual(before, (set(threading.enumerate()), pickle.dumps(of['cluster'])))

    def test_an_unknown_parameter_is_reported(self) -> None:
        opened = self.nodes_driver()
        wrong = self.a_cluster(opened, no_such_parameter=1)
        plan = samples.creation(wrong)
        found = list(opened.validate(context=samples.context(), cluster=wrong, plan=plan))
        self.assertTrue(all(isinstance(one, Problem) for one in found))
        self.assertIn('no_such_parameter', ' '.join(one.path for one in found))

    def test_values_that_its_author_refuses_are_reported(self) -> None:
        opened = self.nodes_driver()
        if not self.refused:
            self.not_for_this_driver('its author names no values that are refused')
        for values in self.refused:
            wrong = self.a_cluster(opened, **values)
            plan = samples.creation(wrong)
            found = opened.validate(context=samples.context(), cluster=wrong, plan=plan)
            self.assertLessEqual(
                {f'parameters.{name}' for name in values}, {one.path for one in found}
            )

    def test_values_that_its_author_accepts_are_no_problem(self) -> None:
        opened = self.nodes_driver()
        if not self.accepted:
            self.not_for_this_driver('its author names no values that are accepted')
        for values in self.accepted:
            right = self.a_cluster(opened, **values)
            plan = samples.creation(right)
            found = opened.validate(context=samples.context(), cluster=right, plan=plan)
            self.assertEqual([], list(found), dict(values))

    def test_a_change_is_refused_if_its_author_refuses_it_and_no_other(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        nodes = samples.nodes_of(cluster)
        refused = self.refused_changes(cluster, nodes)
        accepted = self.accepted_changes(cluster, nodes)
        if not refused and not accepted:
            self.not_for_this_driver('its author names no changes')
        for one in refused:
            self._assert_reported(list(opened.validate(**self._of_change(one))), str(one.plan))
        for one in accepted:
            self.assertEqual([], list(opened.validate(**self._of_change(one))), one.plan)

    def _of_change(self, change: Change) -> Mapping[str, Any]:
        context = samples.context(*change.nodes)
        return {'context': context, 'cluster': change.cluster, 'plan': change.plan}

    def _assert_reported(self, problems: Sequence[Problem], what: str) -> None:
        self.assertTrue(problems, f'{what} is not reported.')
        for one in problems:
            self.assertTrue(one.message.strip(), 'A problem has no message.')
            self.assertRegex(
                one.path, _PLACE, 'The path of a problem is a place in the cluster file.'
            )

    def test_an_impossible_cluster_is_reported(self) -> None:
        opened = self.nodes_driver()
        if type(opened).validate is NodeClusterDriver.validate:
            return  # it refuses what the parameters do not allow
        if not self.refused_groups:
            raise CannotBeShown('refused_groups names no cluster that the driver refuses')
        for counts in self.refused_groups:
            impossible = samples.with_roles(self.a_cluster(opened), counts)
            plan = samples.creation(impossible)
            found = list(opened.validate(**self.of_whole(impossible), plan=plan))
            self._assert_reported(found, str(dict(counts)))

    def test_the_status_report_is_plain_data(self) -> None:
        opened = self.nodes_driver()
        with self.soon('The report'):
            report = opened.update_cluster_status(**self.asked(opened))
        if report is not None:
            self.assertIsInstance(report, StatusReport)
            json.dumps(dict(report.outputs or {}))

    def test_outputs_are_about_no_other_cluster(self) -> None:
        opened = self.nodes_driver()
        cluster, told = self.a_whole(opened), []
        for id_, first in (('kit-other', 101), (cluster.id, 1)):
            there = dataclasses.replace(cluster, id=id_, name=id_)
            nodes = samples.nodes_of(there, first=first)
            with self.network.playing(REFUSING):
                try:
                    report = opened.update_cluster_status(**self.of_whole(there, *nodes))
                except KilnError:
                    return  # outputs that it has to ask for
            told.append(json.dumps(dict(report.outputs or {}) if report else {}))
        others = samples.nodes_of(cluster, first=101)
        found = [
            word for one in others for word in (one.name, one.address or one.name)
            if word in told[1]
        ]  # fmt: skip
        self.assertEqual([], found, 'The outputs of a cluster name nodes of another one.')

    def test_each_answer_is_of_the_kind_that_the_contract_names(self) -> None:
        opened = self.any_driver()
        of = self.asked(opened)
        asked: list[tuple[str, Mapping[str, Any]]] = [
            ('update_cluster_status', of),
            ('validate', {**of, 'plan': samples.creation(of['cluster'])}),
            ('get_monitor', of),
            ('get_scale_manager', of),
        ]
        if isinstance(opened, NodeClusterDriver):
            group = samples.group(1)
            asked += [(name, {**of, 'node': _NODE}) for name in ('bootstrap', 'is_ready', 'drain')]
            asked.append(('compute_driver_for', {'cluster': of['cluster'], 'nodegroup': group}))
        for name, arguments in asked:
            call = functools.partial(getattr(opened, name), **arguments)
            with self.network.playing(SILENT), self._limited():
                try:
                    call_driver(opened.name, name, call)
                except ClusterDriverDefect as exc:
                    self.fail(str(exc))
                except KilnError:
                    continue  # an error of the contract is an answer, too

    def test_a_group_always_has_the_same_backend(self) -> None:
        of = {'cluster': self.asked(self.nodes_driver())['cluster'], 'nodegroup': samples.group(1)}
        with self.soon('The choice of a backend'):
            chosen = {self.nodes_driver().compute_driver_for(**of) for _ in range(5)}
        self.assertEqual(1, len(chosen), chosen)
        self.assertIsInstance(chosen.pop(), str | None)

    def test_a_rotation_returns_soon_with_a_report_or_an_error(self) -> None:
        opened = self.any_driver()
        for cap in (Cap.ROTATE_CREDENTIAL, Cap.ROTATE_CA_CERTIFICATE):
            if cap not in opened.capabilities:
                continue
            with self.network.playing(SILENT), self.soon('The rotation'), self._limited():
                try:
                    report = getattr(opened, cap.value)(**self.asked(opened))
                except KilnError:
                    continue  # nothing runs in the kit that could be rotated
            self.assertIsInstance(report, StatusReport | None)

    def test_the_removal_order_names_existing_nodes(self) -> None:
        self._existing(lambda scale, nodes: scale.order(samples.group(1), nodes))

    def test_the_replacement_order_names_existing_nodes(self) -> None:
        self._existing(lambda scale, nodes: scale.replacement_order(samples.group(3), nodes))

    def _existing(self, ask: Callable[[ScaleManager, Sequence[Node]], Sequence[Node]]) -> None:
        opened = self.any_driver()
        of = self.asked(opened)
        nodes = of['context'].nodes
        with self.network.playing(SILENT), self.soon('The order of nodes'), self._limited():
            order = list(ask(opened.get_scale_manager(**of), nodes))
        self.assertEqual(len(order), len({node.id for node in order}), 'a node is named twice')
        self.assertLessEqual({node.id for node in order}, {node.id for node in nodes})

    def test_answers_can_be_sent_to_another_process(self) -> None:
        opened = self.nodes_driver()
        of = self.asked(opened)
        for answer in (
            opened.bootstrap(**of, node=_NODE),
            list(opened.validate(**of, plan=samples.creation(of['cluster']))),
            opened.compute_driver_for(cluster=of['cluster'], nodegroup=samples.group(1)),
        ):
            self.assertEqual(answer, pickle.loads(pickle.dumps(answer)))  # noqa: S301  # ours


class _Passing:
    """Time as it passes for a driver: what its waits would take, and what it takes in fact."""

    def __init__(self, waits: VirtualClock) -> None:
        self._waits = waits

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self._waits.monotonic()

    def time(self) -> float:
        return SYSTEM_CLOCK.time() + self._waits.monotonic()

    def sleep(self, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(seconds)

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        # Waits of the driver wake nobody.
        return condition.wait(_GLANCE_S if timeout is None else min(timeout, _GLANCE_S))
