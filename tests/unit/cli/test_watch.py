"""What is news about amphorae, told from one answer to the next."""

import unittest

from kiln.cli.watch import Follow
from kiln.models import Changes, ComputeStatus, State


def status(amphora_id='a', state=State.ACTIVE, **more):
    return ComputeStatus(amphora_id=amphora_id, state=state, **more)


class News(unittest.TestCase):
    def told(self, follow, *statuses, **more):
        news = follow.news(Changes(statuses=statuses, **more))
        return [(one.amphora_id, one.state.value) for one in news]

    def test_the_same_answer_twice_is_news_once(self):
        follow = Follow()
        self.assertEqual([('a', 'active')], self.told(follow, status()))
        self.assertEqual([], self.told(follow, status(observed_at=5.0)))

    def test_a_task_and_a_fault_are_news(self):
        follow = Follow()
        self.told(follow, status())
        self.assertEqual(1, len(self.told(follow, status(task_state='rebooting'))))
        self.assertEqual(1, len(self.told(follow, status(task_state='rebooting', fault='x'))))

    def test_what_nobody_asked_for_is_no_news(self):
        self.assertEqual([], self.told(Follow(['b']), status(), gone=('c',)))

    def test_missing_from_a_whole_answer_is_gone_and_from_a_part_is_not(self):
        follow = Follow()
        self.told(follow, status())
        self.assertEqual([], self.told(follow))
        self.assertEqual([('a', 'deleted')], self.told(follow, complete=True))
        self.assertEqual([], self.told(follow, complete=True))

    def test_a_deletion_that_is_told_twice_is_news_once(self):
        follow = Follow(['a'])
        self.assertEqual([('a', 'deleted')], self.told(follow, gone=('a',)))
        self.assertEqual([], self.told(follow, gone=('a',)))

    def test_it_is_over_when_all_are_there_or_gone(self):
        follow = Follow(['a', 'b'], State.ACTIVE)
        self.told(follow, status('a'), status('b', State.BUILDING))
        self.assertFalse(follow.over)
        self.told(follow, status('b', task_state='rebooting'))
        self.assertFalse(follow.over, 'busy is not there yet')
        self.told(follow, gone=('b',))
        self.assertTrue(follow.over)
        self.assertEqual({'b'}, follow.lost)

    def test_to_be_gone_can_be_what_was_wanted(self):
        follow = Follow(['a'], State.DELETED)
        self.told(follow, gone=('a',))
        self.assertTrue(follow.over)
        self.assertEqual(frozenset(), follow.lost)

    def test_without_a_goal_it_is_over_only_when_all_are_gone(self):
        follow = Follow(['a'])
        self.told(follow, status())
        self.assertFalse(follow.over)

    def test_following_all_is_never_over_and_loses_nobody(self):
        follow = Follow(None, State.ACTIVE)
        self.told(follow, status(), gone=('b',))
        self.assertFalse(follow.over)
        self.assertEqual(frozenset(), follow.lost)
