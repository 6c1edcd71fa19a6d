"""Behaviours of concurrent calls, and the time until each call returns."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import threading
import time
from collections.abc import Callable, Collection
from typing import NoReturn, TypeVar

from kiln.clock import Deadline
from kiln.compute_drivers import hooks
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Ability
from kiln.testing.conformance.fixture import ConformanceFixture, needs
from kiln.testing.conformance.interleaving import Ended, Meeting, at_once, meetings
from kiln.testing.conformance.network_use import network_use
from kiln.testing.conformance.wording import error_in_words
from kiln.wrappers.base import DriverWrapper

T = TypeVar('T')

_THREADS = 8
_OPEN_FILES = '/proc/self/fd'
_STEP_S = 0.01
#: Lines at which a read, or a list, is stopped; each needs a build or a delete.
_LINES_OF_READS, _LINES_OF_LISTS = 20, 6


class Threads(ConformanceFixture, contract=(hooks,)):
    """Threads and time."""

    def setUp(self) -> None:
        self._open_before = open_files()
        super().setUp()

    def test_many_threads_with_one_key_build_one_instance(self) -> None:
        key = self.new_key()
        built = at_once(*[functools.partial(self.build, build_key=key)] * _THREADS)
        self.assertEqual(len(set(built)), 1, 'the number of ids that the builds returned')

    def test_many_threads_with_keys_of_their_own_build_as_many_instances(self) -> None:
        built = at_once(*[self.build] * _THREADS)
        self.assertEqual(len(set(built)), _THREADS, 'the number of ids that the builds returned')
        for amphora_id in built:
            self.assert_exists(amphora_id)

    def test_many_threads_can_delete_one_instance(self) -> None:
        amphora_id = self.build()
        at_once(*[functools.partial(self.driver.delete, amphora_id)] * _THREADS)
        self.gone(amphora_id)

    def test_reads_succeed_during_builds_and_deletes(self) -> None:
        stays = self.build()

        def change() -> list[bool]:
            for _ in range(5):
                self.driver.delete(self.build())
            return []

        def look() -> list[bool]:
            return [stays in {one.id for one in self.driver.list_amphorae()} for _ in range(5)]

        for seen in at_once(*[change, look] * (_THREADS // 2)):
            if not all(seen):
                self.broken(f'each list has amphora {stays}', 'a list left it out')

    def test_builds_with_one_key_make_one_instance_wherever_threads_switch(self) -> None:
        driver = innermost(self.driver)

        def prepare() -> tuple[Callable[[], str], Callable[[], str]]:
            given = self.arguments()
            return lambda: driver.build(**given), lambda: driver.build(**given)

        for meeting in meetings(prepare, driver):
            built = [self.result_of(one, meeting) for one in (meeting.first, meeting.second)]
            self._made += built
            if len(set(built)) > 1:
                self.broken_at(meeting, 'two builds with one key return one id', ', '.join(built))
            # A backend can have room for a few only.
            driver.delete(built[0])

    def test_a_read_succeeds_wherever_threads_switch_to_a_delete(self) -> None:
        driver = innermost(self.driver)

        def prepare() -> tuple[Callable[[], str], Callable[[], str]]:
            goes = self.build()
            return lambda: driver.get_amphora(amphora_id=goes).id, lambda: deleted(goes)

        def deleted(amphora_id: str) -> str:
            driver.delete(amphora_id)
            return amphora_id

        for meeting in meetings(prepare, driver, most=_LINES_OF_READS):
            goes = self.result_of(meeting.second, meeting)
            if not isinstance(meeting.first.error, InstanceNotFoundError):
                self.assertEqual(self.result_of(meeting.first, meeting), goes)

    def test_a_list_is_complete_wherever_threads_switch_to_a_build_or_a_delete(self) -> None:
        driver = innermost(self.driver)
        stays = {self.build(), self.build()}
        others: list[str] = []

        def change() -> Collection[str]:
            if others:
                driver.delete(others.pop())
            else:
                others.append(driver.build(**self.arguments()))
                self._made += others
            return others

        looks: tuple[Callable[[], Collection[str]], ...] = (
            lambda: [one.id for one in driver.list_amphorae()],
            lambda: driver.statuses(stays),
            lambda: [one.amphora_id for one in driver.changes().statuses],
        )
        for look in looks:
            same_calls = itertools.repeat((look, change)).__next__
            for meeting in meetings(same_calls, driver, most=_LINES_OF_LISTS):
                self.result_of(meeting.second, meeting)
                found = self.result_of(meeting.first, meeting)
                if missing := stays.difference(found):
                    self.broken_at(meeting, f'it has amphora {min(missing)}', 'it is left out')

    def test_a_build_returns_before_its_effect(self) -> None:
        with self.soon('build'):
            self.build()

    def test_a_delete_returns_before_its_effect(self) -> None:
        amphora_id = self.build_active()
        with self.soon('delete'):
            self.driver.delete(amphora_id)

    def test_reads_return_at_once(self) -> None:
        name = self.new_key()
        amphora_id = self.build(name=name)
        looks: tuple[Callable[[], object], ...] = (
            lambda: self.driver.status(amphora_id),
            lambda: self.driver.statuses([amphora_id]),
            lambda: self.driver.get_amphora(name, amphora_id),
            lambda: list(self.driver.list_amphorae()),
            self.driver.changes,
            self.driver.check,
        )
        for look in looks:
            with self.soon('a look'):
                look()

    @needs(Ability.SUSPEND)
    def test_a_suspend_returns_before_its_effect(self) -> None:
        amphora_id = self.build_active()
        with self.soon('suspend'):
            self.driver.suspend(amphora_id)

    @needs(Ability.SUSPEND, Ability.RESUME)
    def test_a_resume_returns_before_its_effect(self) -> None:
        amphora_id = self.suspended()
        with self.soon('resume'):
            self.driver.resume(amphora_id)

    @needs(Ability.REBOOT)
    def test_a_reboot_returns_before_its_effect(self) -> None:
        amphora_id = self.build_active()
        with self.soon('reboot'):
            self.driver.reboot(amphora_id)

    @needs(Ability.REBUILD)
    def test_a_rebuild_returns_before_its_effect(self) -> None:
        amphora_id = self.build_active()
        with self.soon('rebuild'):
            self.driver.rebuild(amphora_id)

    def test_a_driver_is_opened_without_using_the_network(self) -> None:
        with network_use() as used:
            driver = self.make_driver()
        driver.close()
        if used:
            self.broken('make_driver() opens a driver without the network', used[0])

    def test_a_closed_driver_leaves_no_thread_and_no_open_file(self) -> None:
        threads = set(threading.enumerate())
        driver = innermost(self.make_driver())
        driver.check()
        self._made.append(driver.build(**self.arguments()))
        list(driver.list_amphorae())
        driver.close()
        # A file that both have open is not closed before both have closed it.
        innermost(self.driver).close()
        try:
            self.assert_all_closed(threads)
        finally:
            self.driver = self.make_driver()

    def assert_all_closed(self, threads: set[threading.Thread]) -> None:
        """Fail unless the other threads end soon, and no file of this test is open."""
        # Real time, as other threads end in real time only.
        deadline = Deadline.after(self.soon_s)
        while True:
            left = [one.name for one in set(threading.enumerate()) - threads]
            left += sorted(open_files() - self._open_before)
            if not left:
                return
            if deadline.passed:
                self.broken('close() ends all threads and closes all files', ', '.join(left))
            # A file in a cycle of garbage is closed when it is collected.
            gc.collect()
            time.sleep(_STEP_S)

    def result_of(self, ended: Ended[T], meeting: Meeting[T]) -> T:
        """Return the result of a call; fail if it has raised an error."""
        if ended.error is not None or ended.result is None:
            seen = 'None' if ended.error is None else error_in_words(ended.error, self.driver)
            self.broken_at(meeting, 'both calls succeed', seen)
        return ended.result

    def broken_at(self, meeting: Meeting[T], sentence: str, seen: str) -> NoReturn:
        """Fail, and name the line at which the first of two threads was stopped."""
        self.broken(f'{sentence}, where one thread stops at {meeting.place}', seen)


def innermost(driver: AmphoraComputeDriver) -> AmphoraComputeDriver:
    """Return a driver without its guards: its code runs on the thread of its caller."""
    while isinstance(driver, DriverWrapper):
        driver = driver.inner
    return driver


def open_files() -> set[str]:
    """Return the open files and sockets of this process by name, where Linux shows them.

    By name, because SQLite closes a file only when no other driver in the process has it.
    """
    names = set()
    for number in os.listdir(_OPEN_FILES) if os.path.isdir(_OPEN_FILES) else ():
        # The list itself was open, and other threads close their files.
        with contextlib.suppress(OSError):
            names.add(os.readlink(f'{_OPEN_FILES}/{number}'))
    return names
