"""Calls of hooks: functions in this process, and threads that make them."""

import threading
import unittest

from kiln.cluster_models import OperationKind
from kiln.hooks.answers import Answer, Reply
from kiln.hooks.hook import Executable, Hook, Plugin, Webhook
from kiln.hooks.invocation import Call
from kiln.hooks.plugins import hook as declare
from kiln.hooks.points import OnFailure, Point
from kiln.hooks.site import Hooks
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

    def test_it_is_given_the_document(self):
        seen = []
        self.assertEqual(Answer.ok(), self.call(seen.append))
        self.assertEqual('web', seen[0]['cluster']['name'])
        self.assertEqual('key', seen[0]['invocation'])

    def test_what_it_returns_counts(self):
        self.assertEqual(Answer.later('wait', 3.0), self.call(lambda _: Answer.later('wait', 3.0)))
        self.assertRegex(self.call(lambda _: True).message, 'returned bool')

    def test_whatever_it_raises_is_its_failure(self):
        for error in (ValueError('no\nroom'), SystemExit('no room'), KeyError()):
            with self.subTest(error):

                def fail(document, error=error):
                    raise error

                answer = self.call(fail)
                self.assertIs(Reply.FAILED, answer.reply)
                self.assertRegex(answer.message, 'no room|KeyError')

    def test_one_that_does_not_return_is_not_waited_for_nor_begun_twice(self):
        stuck, count = threading.Event(), []
        self.addCleanup(stuck.set)

        def never(document):
            count.append(document)
            stuck.wait(120)

        self.assertIn('not returned within 0.05 s', self.call(never, timeout_s=0.05).message)
        wait_until(lambda: len(count) == 1)
        self.assertIn('former call', self.call(never, timeout_s=0.05).message)
        self.call(never, key='other', timeout_s=0.05)
        wait_until(lambda: len(count) == 2)
        stuck.set()
        wait_until(lambda: self.call(lambda _: None).reply is Reply.OK)
        self.assertEqual(2, len(count))

    def test_a_package_declares_a_hook_by_a_function(self):
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

    def test_another_thread_makes_the_call_and_tells_the_answer(self):
        told = []
        call = Call(plugin(lambda _: Answer.ok(threading.current_thread().name)), 'key', 1, None)
        self.hooks.begin(call, occasion().document(), told.append)
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

    def test_a_defect_leaves_nobody_without_an_answer(self):
        broken = Hook(name='a', point=Point.PRE_CREATE, target=Executable(('a\0b',)))
        with self.assertLogs('kiln.hooks.site', 'ERROR'):
            answer = self.hooks.call(Call(broken, 'key', 1, None), occasion().document())
        self.assertIs(Reply.FAILED, answer.reply)


class Choosing(unittest.TestCase):
    def test_an_operation_has_the_hooks_that_are_for_it(self):
        hooks = Hooks(
            [hook('a', Point.PRE_CREATE), hook('b', Point.PRE_CREATE, clusters=('db',)),
             hook('c', Point.POST_CREATE, drivers=('swarm_v1',))]
        )  # fmt: skip
        found = hooks.of(CLUSTER, OperationKind.CREATE)
        self.assertEqual(['a', 'c'], [one.name for one in found])
        self.assertEqual(3, len(list(hooks)))
