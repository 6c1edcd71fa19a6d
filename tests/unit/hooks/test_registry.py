"""Hook registry: calls of plugins, threads, and the hooks of an operation."""

import threading
import unittest

from kiln.clusters.models import OperationKind
from kiln.hooks.callers.plugins import hook as declare
from kiln.hooks.hook import Executable, Hook, Plugin, Webhook
from kiln.hooks.invocation import Call
from kiln.hooks.points import OnFailure, Point
from kiln.hooks.registry import Hooks
from kiln.hooks.replies import Answer, Reply
from tests.unit.hooks.samples import CLUSTER, hook, occasion, wait_until


def plugin(function, **more):
    return Hook(name='a', point=Point.PRE_CREATE, target=Plugin(function), **more)


class Plugins(unittest.TestCase):
    def setUp(self):
        self.hooks = Hooks()
        self.addCleanup(self.hooks.close)

    def call(self, function, key='key', **more):
        call = Call(plugin(function, **more), key, 1, None)
        return self.hooks.call(call, occasion().document())

    def test_a_plugin_is_called_with_the_payload(self):
        seen = []
        self.assertEqual(Answer.ok(), self.call(seen.append))
        self.assertEqual('web', seen[0]['cluster']['name'])
        self.assertEqual('key', seen[0]['invocation'])

    def test_the_return_value_is_the_answer(self):
        self.assertEqual(Answer.later('wait', 3.0), self.call(lambda _: Answer.later('wait', 3.0)))
        self.assertRegex(self.call(lambda _: True).message, 'returned bool')

    def test_any_exception_is_a_failure(self):
        for error in (ValueError('no\nroom'), SystemExit('no room'), KeyError()):
            with self.subTest(error):

                def fail(document, error=error):
                    raise error

                answer = self.call(fail)
                self.assertIs(Reply.FAILED, answer.reply)
                self.assertRegex(answer.message, 'no room|KeyError')

    def test_a_stuck_plugin_is_abandoned_and_not_called_again_under_its_key(self):
        stuck, count = threading.Event(), []
        self.addCleanup(stuck.set)

        def never(document):
            count.append(document)
            stuck.wait(120)

        self.assertIn('did not return within 0.05 s', self.call(never, timeout_s=0.05).message)
        wait_until(lambda: len(count) == 1)
        self.assertIn('previous call', self.call(never, timeout_s=0.05).message)
        self.call(never, key='other', timeout_s=0.05)
        wait_until(lambda: len(count) == 2)
        stuck.set()
        wait_until(lambda: self.call(lambda _: None).reply is Reply.OK)
        self.assertEqual(2, len(count))

    def test_a_function_is_declared_as_a_hook(self):
        @declare('pre_create', order=10, on_failure=OnFailure.WARN)
        def reserve(document):
            pass

        self.assertEqual(('reserve', Point.PRE_CREATE, 10), (reserve.name, reserve.point,
                                                             reserve.order))  # fmt: skip
        with self.assertRaises(ValueError):
            declare('pre_lunch')


class Calling(unittest.TestCase):
    def setUp(self):
        self.hooks = Hooks()
        self.addCleanup(self.hooks.close)

    def test_another_thread_makes_the_call_and_passes_the_answer(self):
        told = []
        call = Call(plugin(lambda _: Answer.ok(threading.current_thread().name)), 'key', 1, None)
        self.hooks.begin('c-web', call, occasion().document(), told.append)
        wait_until(lambda: told)
        self.assertNotEqual(threading.current_thread().name, told[0].message)
        self.hooks.close()

    def test_programs_and_servers_are_called_too(self):
        for target, said in (
            (Executable(('/no/such/program',)), 'cannot be run'),
            (Webhook('http://127.0.0.1:1/'), 'did not answer'),
        ):
            one = Hook(name='a', point=Point.PRE_CREATE, target=target)
            answer = self.hooks.call(Call(one, 'key', 1, None), occasion().document())
            self.assertIn(said, answer.message)

    def test_a_defect_is_answered_as_a_failure(self):
        broken = Hook(name='a', point=Point.PRE_CREATE, target=Executable(('a\0b',)))
        with self.assertLogs('kiln.hooks.registry', 'ERROR'):
            answer = self.hooks.call(Call(broken, 'key', 1, None), occasion().document())
        self.assertIs(Reply.FAILED, answer.reply)


class Choosing(unittest.TestCase):
    def test_an_operation_gets_the_hooks_that_match_it(self):
        hooks = Hooks(
            [hook('a', Point.PRE_CREATE), hook('b', Point.PRE_CREATE, clusters=('db',)),
             hook('c', Point.POST_CREATE, drivers=('swarm_v1',))]
        )  # fmt: skip
        found = hooks.of(CLUSTER, OperationKind.CREATE)
        self.assertEqual(['a', 'c'], [one.name for one in found])
        self.assertEqual(3, len(list(hooks)))
