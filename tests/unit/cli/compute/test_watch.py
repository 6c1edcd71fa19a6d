"""Tests of the changes of amphorae between two answers."""

import unittest

from kiln.cli.compute.watch import Follow
from kiln.models import Changes, ComputeStatus, State


def status(amphora_id='a', state=State.ACTIVE, **more):
    return ComputeStatus(amphora_id=amphora_id, state=state, **more)


class News(unittest.TestCase):
    def told(self, follow, *statuses, **more):
        news = follow.news(Changes(statuses=statuses, **more))
        return [(one.amphora_id, one.state.value) for one in news]

    def test_an_unchanged_answer_yields_no_change(self):
        follow = Follow()
        self.assertEqual([('a', 'active')], self.told(follow, status()))
        self.assertEqual([], self.told(follow, status(observed_at=5.0)))

    def test_a_task_or_a_fault_is_a_change(self):
        follow = Follow()
        self.told(follow, status())
        self.assertEqual(1, len(self.told(follow, status(task_state='rebooting'))))
        self.assertEqual(1, len(self.told(follow, status(task_state='rebooting', fault='x'))))

    def test_amphorae_that_are_not_watched_yield_no_change(self):
        self.assertEqual([], self.told(Follow(['b']), status(), gone=('c',)))

    def test_an_amphora_missing_from_a_complete_answer_is_gone(self):
        follow = Follow()
        self.told(follow, status())
        self.assertEqual([], self.told(follow))
        self.assertEqual([('a', 'deleted')], self.told(follow, complete=True))
        self.assertEqual([], self.told(follow, complete=True))

    def test_a_repeated_deletion_yields_one_change(self):
        follow = Follow(['a'])
        self.assertEqual([('a', 'deleted')], self.told(follow, gone=('a',)))
        self.assertEqual([], self.told(follow, gone=('a',)))

    def test_it_is_over_when_all_reached_the_goal_or_are_gone(self):
        follow = Follow(['a', 'b'], State.ACTIVE)
        self.told(follow, status('a'), status('b', State.BUILDING))
        self.assertFalse(follow.over)
        self.told(follow, status('b', task_state='rebooting'))
        self.assertFalse(follow.over, 'busy is not there yet')
        self.told(follow, gone=('b',))
        self.assertTrue(follow.over)
        self.assertEqual({'b'}, follow.lost)

    def test_deletion_can_be_the_goal(self):
        follow = Follow(['a'], State.DELETED)
        self.told(follow, gone=('a',))
        self.assertTrue(follow.over)
        self.assertEqual(frozenset(), follow.lost)

    def test_without_a_goal_it_is_over_only_when_all_are_gone(self):
        follow = Follow(['a'])
        self.told(follow, status())
        self.assertFalse(follow.over)

    def test_following_all_is_never_over_and_loses_none(self):
        follow = Follow(None, State.ACTIVE)
        self.told(follow, status(), gone=('b',))
        self.assertFalse(follow.over)
        self.assertEqual(frozenset(), follow.lost)
