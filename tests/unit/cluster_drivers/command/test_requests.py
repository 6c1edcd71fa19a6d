"""What a driver does next about a request of its program: decided without any process."""

import dataclasses
import unittest

from kiln.cluster_drivers.command.protocol import Answer, Ending, Verb
from kiln.cluster_drivers.command.requests import (
    MOST_LOST,
    Memory,
    Request,
    Seen,
    Step,
    last_step,
    next_step,
)

REQUEST = Request(id='now', verb=Verb.UPDATE, kind='update', deadline_at=100.0, first=5)
MEMORY = Memory(request=REQUEST, run=5)


def seen(number=5, request='now', verb=Verb.UPDATE, **more):
    given = {'running': False, 'stopping': False} | more
    return Seen(number=number, request=request, verb=verb, **given)


def ended(ending, **more):
    return seen(answer=Answer(ending=ending), **more)


def step(last, memory=MEMORY, *, now=0.0, can_cancel=True):
    return next_step(memory, last, now, can_cancel=can_cancel)


class Steps(unittest.TestCase):
    def test_a_request_without_any_run_is_begun(self):
        self.assertIs(Step.START, step(None))

    def test_a_run_of_the_request_is_watched(self):
        self.assertIs(Step.WATCH, step(seen(running=True)))

    def test_a_run_of_another_request_is_ended_first(self):
        self.assertIs(Step.STOP, step(seen(4, 'before', running=True)))

    def test_a_run_that_is_ending_is_not_watched(self):
        self.assertIs(Step.STOP, step(seen(running=True, stopping=True)))

    def test_what_another_request_has_begun_is_cancelled(self):
        for last in (seen(4, 'before'), ended(Ending.LATER, number=4, request='before')):
            self.assertIs(Step.CANCEL, step(last))
            self.assertIs(Step.START, step(last, can_cancel=False))

    def test_what_another_request_has_finished_is_not_cancelled(self):
        for ending in (Ending.DONE, Ending.FAILED, Ending.REFUSED):
            self.assertIs(Step.START, step(ended(ending, number=4, request='before')))

    def test_a_cancellation_is_not_ended_by_the_request_that_waits_for_it(self):
        for request in 'before', 'now':
            self.assertIs(Step.WATCH, step(seen(5, request, Verb.CANCEL, running=True)))

    def test_a_run_that_is_at_work_long_after_its_end_is_ended(self):
        for verb in Verb.UPDATE, Verb.CANCEL:
            self.assertIs(Step.STOP, step(seen(verb=verb, running=True, overdue=True)))

    def test_after_a_cancellation_the_request_is_begun(self):
        for ending in (Ending.DONE, Ending.FAILED, Ending.REFUSED):
            last = ended(ending, number=5, request='before', verb=Verb.CANCEL)
            self.assertIs(Step.START, step(last))

    def test_a_cancellation_that_is_not_done_is_called_again(self):
        for request in 'before', 'now':
            self.assertIs(Step.CANCEL, step(seen(5, request, Verb.CANCEL)))
            late = ended(Ending.LATER, request=request, verb=Verb.CANCEL)
            self.assertIs(Step.CANCEL, step(late))
            memory = dataclasses.replace(MEMORY, again_at=10.0)
            self.assertIs(Step.WAIT, step(late, memory, now=9.9))
            memory = dataclasses.replace(MEMORY, lost=MOST_LOST)
            self.assertIs(Step.START, step(seen(5, request, Verb.CANCEL), memory))

    def test_nothing_is_begun_once_the_time_is_over(self):
        for last in (None, seen(), ended(Ending.LATER), ended(Ending.FAILED, number=4)):
            self.assertIs(Step.START, step(last, now=99.9))
            self.assertIs(Step.TOO_LATE, step(last, now=100.0))
        self.assertIs(Step.FINISH, step(ended(Ending.DONE), now=100.0))
        self.assertIs(Step.CANCEL, step(seen(4, 'before'), now=100.0))

    def test_the_end_of_the_request_is_reported(self):
        for ending in (Ending.DONE, Ending.FAILED, Ending.REFUSED):
            self.assertIs(Step.FINISH, step(ended(ending)))

    def test_a_run_before_the_request_was_retried_does_not_count(self):
        self.assertIs(Step.START, step(ended(Ending.FAILED, number=4)))

    def test_later_is_waited_for(self):
        memory = dataclasses.replace(MEMORY, again_at=10.0)
        self.assertIs(Step.WAIT, step(ended(Ending.LATER), memory, now=9.9))
        self.assertIs(Step.START, step(ended(Ending.LATER), memory, now=10.0))

    def test_a_clock_that_was_set_back_ends_the_wait(self):
        memory = dataclasses.replace(MEMORY, again_at=5000.0)
        self.assertIs(Step.START, step(ended(Ending.LATER), memory, now=50.0))

    def test_a_lost_run_is_repeated_until_too_many_were_lost(self):
        self.assertIs(Step.START, step(seen()))
        memory = dataclasses.replace(MEMORY, lost=MOST_LOST)
        self.assertIs(Step.GIVE_UP, step(seen(), memory))


class Unwanted(unittest.TestCase):
    """Requests whose operation was cancelled."""

    def last(self, last, memory=MEMORY, *, now=0.0, can_cancel=True):
        return last_step(memory, last, now, can_cancel=can_cancel)

    def test_nothing_is_begun_whatever_the_last_run_was(self):
        for last in (None, ended(Ending.DONE), ended(Ending.FAILED), ended(Ending.REFUSED)):
            self.assertIs(Step.FORGET, self.last(last))

    def test_a_run_at_work_is_ended(self):
        for request in 'before', 'now':
            self.assertIs(Step.STOP, self.last(seen(5, request, running=True)))

    def test_what_it_has_begun_is_cancelled_if_the_program_can(self):
        for last in (seen(), ended(Ending.LATER)):
            self.assertIs(Step.CANCEL, self.last(last))
            self.assertIs(Step.FORGET, self.last(last, can_cancel=False))

    def test_a_cancellation_is_waited_for_and_then_all_is_forgotten(self):
        self.assertIs(Step.WATCH, self.last(seen(verb=Verb.CANCEL, running=True)))
        for ending in (Ending.DONE, Ending.FAILED, Ending.REFUSED):
            self.assertIs(Step.FORGET, self.last(ended(ending, verb=Verb.CANCEL)))

    def test_a_cancellation_that_is_not_done_is_called_again(self):
        for last in (seen(verb=Verb.CANCEL), ended(Ending.LATER, verb=Verb.CANCEL)):
            self.assertIs(Step.CANCEL, self.last(last))
        memory = dataclasses.replace(MEMORY, again_at=10.0)
        late = ended(Ending.LATER, verb=Verb.CANCEL)
        self.assertIs(Step.WAIT, self.last(late, memory, now=9.9))


class Remembered(unittest.TestCase):
    def test_a_memory_is_stored_and_read(self):
        memory = dataclasses.replace(MEMORY, program={'a': [1]}, told=3, deleted=True)
        self.assertEqual(memory, Memory.read(memory.stored()))

    def test_a_cluster_without_a_memory_has_an_empty_one(self):
        self.assertEqual(Memory(), Memory.read({}))

    def test_what_a_later_kiln_has_stored_beside_is_ignored(self):
        self.assertEqual(Memory(run=2), Memory.read({'run': 2, 'later': 1}))


if __name__ == '__main__':
    unittest.main()
