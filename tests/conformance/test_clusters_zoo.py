"""Cluster drivers that are wrong on purpose, each in one way: the kit must catch them all."""

import dataclasses
import logging
import threading
import time
import unittest
import uuid

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.template_def import TemplateDefinition
from kiln.cluster_drivers.values import Bootstrap, Readiness, StatusReport, join_token
from kiln.cluster_drivers.verbs import Verb
from kiln.cluster_exceptions import Problem
from kiln.compute import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.testing.clusters import CrashConformance, Site, run_cluster_conformance
from kiln.testing.clusters.answers import Answers
from kiln.testing.clusters.site import STACK
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.conformance.showing import show
from tests.unit.foreign_driver import Foreign


class Right(NodeClusterDriver):
    """Right in all; the animals of the zoo are but for one thing."""

    name = 'right_v1'
    version = '1.0.0'
    provides = (('*', '*', 'nodes'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)


class Forgetful(Right):
    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=uuid.uuid4().bytes)


class Hasty(Right):
    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=' '.join({f'word-{i}' for i in range(50)}).encode())


class Large(Right):
    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=b'x' * 2**20)


class Talkative(Right):
    def bootstrap(self, context, cluster, node):
        token = join_token(context, node)
        logging.getLogger(__name__).warning('The token is %s', token)
        return Bootstrap(user_data=token.encode(), join_token=token)


class Patient(Right):
    def is_ready(self, context, cluster, node):
        time.sleep(0.3)
        return Readiness.not_yet('it never is')


class Yes(Right):
    def drain(self, context, cluster, node):
        return True


class Misspelt(Right):
    def is_redy(self, context, cluster, node):
        raise AssertionError('nobody calls it')


class Versionless(Right):
    version = 'one'


class Picky(Right):
    def validate(self, context, cluster, plan):
        return (Problem(message='it is not to my taste'),)


class Busy(Right):
    def validate(self, context, cluster, plan):
        gone = threading.Event()
        threading.Thread(target=gone.wait, args=(20,), daemon=True).start()
        return super().validate(context, cluster, plan)


class Careless(Right):
    def validate(self, context, cluster, plan):
        return ()


class Opaque(Right):
    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs={'thing': object()})


class Ruthless(Right):
    def get_scale_manager(self, context, cluster):
        return Stranger(context, cluster)


class Stranger(DefaultScaleManager):
    def order(self, nodegroup, nodes):
        return [dataclasses.replace(node, id='stranger') for node in nodes]


class Mute(Right):
    verbs = {'shout': Verb(run=print, help='')}  # noqa: RUF012


class Deaf(Right):
    def get_monitor(self, context, cluster):
        return Slow(context, cluster)


class Slow(Monitor):
    metrics = (Metric('a', 'b', 'c'),)

    def pull(self):
        time.sleep(0.1)
        return {}


#: Every animal, with behaviours that catch it.
ZOO = {
    Forgetful: ['*by_each_call*', '*same_by_another_process'],
    Hasty: ['*by_another_process'],
    Large: ['*no_more_than_backends_take'],
    Talkative: ['secrets*'],
    Yes: ['*drained_is_said_soon'],
    Misspelt: ['nothing_is_called_almost*'],
    Versionless: ['it_keeps*'],
    Picky: ['nothing_is_wrong_with*'],
    Busy: ['to_validate*'],
    Careless: ['a_parameter_that*'],
    Opaque: ['what_people_are_told*'],
    Ruthless: ['nodes_that_may_go*'],
    Mute: ['its_verbs*'],
}


def judged(animal, *names):
    select = [f'test_{name}' if name[0] != '*' else name for name in names]
    return run_cluster_conformance(f'{animal.__module__}:{animal.__name__}', select=select)


class Zoo(unittest.TestCase):
    def test_the_kit_catches_every_animal(self):
        for animal, names in ZOO.items():
            with self.subTest(animal.__name__):
                report = judged(animal, *names)
                self.assertEqual(
                    {BehaviourOutcome.FAILED}, {one.outcome for one in report.results},
                    report.render(),
                )  # fmt: skip

    def test_who_is_right_is_not_caught(self):
        report = judged(Right, *{name for names in ZOO.values() for name in names})
        self.assertTrue(report.ok, report.render())
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.NOT_SHOWN))

    def test_who_waits_for_a_node_is_caught_by_the_deadline(self):
        class Judged(Answers, unittest.TestCase):
            driver = f'{__name__}:Patient'
            soon_s = 0.2

        result = show(Judged('test_whether_a_node_is_ready_is_said_soon'), 'Answers', 'x')
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn('look once, never wait', result.reason)

    def test_who_measures_slowly_does_no_harm(self):
        self.assertTrue(judged(Deaf, '*measuring*').ok)

    def test_of_a_driver_with_an_engine_of_its_own_kiln_shows_what_it_can(self):
        report = judged(Foreign, '*')
        self.assertTrue(report.ok, report.render())
        self.assertGreater(len(report.of(BehaviourOutcome.PASSED)), 10)
        self.assertIn('an engine of its own', report.render())


class Doubling(NoopDriver):
    """A backend on which a request that is repeated is another one."""

    def _build(self, request):
        return super()._build(dataclasses.replace(request, build_key=uuid.uuid4().hex))

    def _find_build(self, build_key):
        return None


class DoublingSite(Site):
    """A site where crashes cost machines."""

    def open_backend(self, faults=()):
        return Compute(Doubling(cloud=self._cloud(faults)), settings=STACK)


class Matrix(unittest.TestCase):
    def test_machines_that_are_made_twice_are_found(self):
        # In here, so that it is judged by this test alone.
        class Crashes(CrashConformance, unittest.TestCase):
            driver = f'{__name__}:Right'

            def site(self, folder):
                return DoublingSite(folder=folder, driver=self.driver)

        case = Crashes('test_a_creation_killed_at_any_commit_ends_as_if_it_had_not_been')
        try:
            result = show(case, 'Crashes', 'x')
        finally:
            Crashes.doClassCleanups()
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn("is nobody's", result.reason)
