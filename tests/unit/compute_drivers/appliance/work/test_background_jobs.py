"""Background jobs: bounded concurrency, each run once, despite failures."""

import shutil
import socket
import sqlite3
import threading
import time

from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.compute_drivers.appliance.work.background_jobs import Crew
from kiln.compute_drivers.appliance.work.tasks import Timeouts
from kiln.exceptions import InstanceNotFoundError
from kiln.models import AmphoraType, State
from tests.unit.compute_drivers.appliance.samples import RULES, PoolCase, pool

METAL = {'amphora_type': AmphoraType.BARE_METAL}


class Closing:
    """An inventory in a file that is read at the moment at which its crew is closed."""

    crew, closed = None, False

    def __init__(self, inventory):
        self._inventory = inventory

    @property
    def current(self):
        self.crew.close()
        self.closed = True
        return self._inventory


class Counting:
    """An inventory in a file; each look of a crew reads it once."""

    def __init__(self, inventory):
        self._inventory, self.looks = inventory, 0

    @property
    def current(self):
        self.looks += 1
        return self._inventory


class Crews(PoolCase):
    def setUp(self):
        super().setUp()
        self.state_dir = self.folder / 'state'
        self.gate = self.folder / 'go'
        # Marks that it runs, and runs until the gate opens.
        self.claim = self.program(
            'claim',
            f'echo $KILN_MACHINE >> {self.folder}/log; touch {self.folder}/$KILN_MACHINE.runs\n'
            f'while ! test -e {self.gate}; do sleep 0.005; done\n'
            f'rm {self.folder}/$KILN_MACHINE.runs',
        )

    def pool(self, count, each=''):
        return pool(count, each=f'claim = ["{self.claim}"]\n{each}')

    def running(self):
        return {path.stem for path in self.folder.glob('*.runs')}

    def log(self):
        return sorted((self.folder / 'log').read_text().split())

    def states(self, driver):
        return {one.state for one in driver.list_amphorae()}

    def test_no_more_commands_run_at_a_time_than_there_are_workers(self):
        driver = self.open_driver(self.pool(5), command_workers=2)
        for _ in range(5):
            driver.build(**METAL)
        self.until(lambda: len(self.running()) == 2)
        looked = self.clock.monotonic()
        self.until(lambda: self.clock.monotonic() > looked + 10)
        self.assertEqual(2, len(self.running()))
        self.gate.touch()
        self.until(lambda: self.states(driver) == {State.ACTIVE})
        self.assertEqual([f'm{number}' for number in range(1, 6)], self.log())

    def test_the_work_that_has_waited_longest_is_done_first(self):
        driver = self.open_driver(self.pool(3), command_workers=1)
        for _ in range(3):
            driver.build(**METAL)
            self.clock.advance(1)
        self.until(lambda: self.running() == {'m1'})
        self.gate.touch()
        self.until(lambda: self.states(driver) == {State.ACTIVE})
        self.assertEqual(['m1', 'm2', 'm3'], (self.folder / 'log').read_text().split())

    def test_long_commands_do_not_delay_probes(self):
        text = self.pool(1) + (
            '[machines.other]\naddresses = ["192.0.2.9"]\nflavors = ["probed"]\n'
            'probe = {command = ["/bin/true"]}\n'
        )
        driver = self.open_driver(text, command_workers=1, probe_workers=1)
        driver.build(user_data='#!', **METAL)
        self.until(self.running)
        probed = driver.build(amphora_flavor='probed', **METAL)
        self.until(lambda: driver.status(probed).state is State.ACTIVE)
        self.gate.touch()

    def test_two_processes_run_each_command_once(self):
        one, other = self.open_driver(self.pool(6)), self.open_driver()
        self.gate.touch()
        for number in range(6):
            (one, other)[number % 2].build(**METAL)
        self.until(lambda: self.states(one) == {State.ACTIVE})
        self.assertEqual([f'm{number}' for number in range(1, 7)], self.log())

    def test_a_delete_by_another_process_ends_the_command_that_runs_here(self):
        one, other = self.open_driver(self.pool(1)), self.open_driver()
        amphora_id = one.build(**METAL)
        self.until(self.running)
        other.delete(amphora_id)

        def gone():
            try:
                other.status(amphora_id)
            except InstanceNotFoundError:
                return True
            return False

        # The command itself would never end.
        self.until(gone)

    def test_a_delete_ends_its_command_even_if_others_run(self):
        driver = self.open_driver(self.pool(2))
        driver.build(**METAL)
        self.until(self.running)
        second = driver.build(**METAL)
        self.until(lambda: len(self.running()) == 2)
        driver.delete(second)
        self.until(lambda: second not in {one.id for one in driver.list_amphorae()})
        self.assertEqual({State.BUILDING}, self.states(driver))

    def test_the_end_of_a_command_that_a_delete_ended_is_not_taken_for_that_of_the_wipe(self):
        driver = self.open_driver(self.pool(1, each='wipe = ["/bin/true"]\n'))
        amphora_id = driver.build(**METAL)
        self.until(self.running)
        with self.assertNoLogs('kiln', 'WARNING'):
            driver.delete(amphora_id)
            self.until(lambda: not list(driver.list_amphorae()))

    def test_a_failure_on_one_machine_does_not_delay_others(self):
        driver = self.open_driver(self.pool(2))
        self.gate.touch()
        broken = self.state_dir / 'locks' / 'm1.lock'
        broken.mkdir()
        with self.warned() as logged:
            first, second = driver.build(**METAL), driver.build(**METAL)
            self.until(lambda: driver.status(second).state is State.ACTIVE)
        self.assertIn('Cannot begin due work on machine m1 now', logged.output[0])
        self.assertNotIn('Traceback', logged.output[0])
        broken.rmdir()
        self.until(lambda: driver.status(first).state is State.ACTIVE)

    def test_failed_work_is_retried_at_intervals(self):
        driver = self.open_driver(self.pool(1))
        self.gate.touch()
        shutil.rmtree(self.state_dir / 'run')
        with self.warned() as logged:
            amphora_id = driver.build(**METAL)
            looked = self.clock.monotonic()
            self.until(lambda: self.clock.monotonic() > looked + 3)
        self.assertIn('Cannot finish due work on machine m1 now', logged.output[0])
        # Once a second, no matter how often it fails.
        self.assertLessEqual(len(logged.output), 6)
        (self.state_dir / 'run').mkdir()
        self.until(lambda: driver.status(amphora_id).state is State.ACTIVE)

    def test_temporarily_unreadable_claims_do_not_stop_the_work_for_good(self):
        driver = self.open_driver(self.pool(1))
        self.gate.touch()
        list(driver.list_amphorae())
        with sqlite3.connect(self.state_dir / 'claims.db') as db:
            db.execute('ALTER TABLE claims RENAME TO away')
        with self.warned() as logged:
            pass
        self.assertIn('Cannot read the due work', logged.output[0])
        with db:
            db.execute('ALTER TABLE away RENAME TO claims')
        db.close()
        amphora_id = driver.build(**METAL)
        self.until(lambda: driver.status(amphora_id).state is State.ACTIVE)

    def test_a_claim_that_ends_while_its_command_runs_is_harmless(self):
        driver = self.open_driver(self.pool(1))
        driver.build(**METAL)
        self.until(self.running)
        with sqlite3.connect(self.state_dir / 'claims.db') as db:
            db.execute('DELETE FROM claims')
        db.close()
        self.gate.touch()
        with self.assertNoLogs('kiln', 'WARNING'):
            amphora_id = driver.build(**METAL)
            self.until(lambda: driver.status(amphora_id).state is State.ACTIVE)

    def test_a_machine_that_is_locked_again_later_is_logged_again(self):
        driver = self.open_driver(self.pool(1))
        shutil.rmtree(self.state_dir / 'run')
        lock = self.lock('m1')
        driver.build(**METAL)
        for _ in range(2):
            self.until_logged('Machine m1 has been locked', step_s=50)
            lock.close()
            # The work begins and fails, and so stays due as it was.
            self.until_logged('Cannot finish due work on machine m1')
            lock = self.locked_at_last()
        lock.close()

    def test_other_work_that_a_locked_machine_keeps_waiting_is_logged_too(self):
        driver = self.open_driver(self.pool(1, each='wipe = ["/bin/true"]\n'))
        lock = self.lock('m1')
        self.addCleanup(lock.close)
        amphora_id = driver.build(**METAL)
        self.until_logged('its due work waits (claiming)', step_s=50)
        driver.delete(amphora_id)
        self.until_logged('its due work waits (wiping)', step_s=50)

    def test_a_machine_that_stays_locked_is_logged_once(self):
        driver = self.open_driver(self.pool(2))
        lock = self.lock('m1')
        self.addCleanup(lock.close)
        driver.build(**METAL)
        self.until_logged('Machine m1 has been locked', step_s=50)
        driver.build(**METAL)
        # The older work is looked at first, each time.
        with self.assertNoLogs('kiln', 'WARNING'):
            self.until(lambda: self.running() == {'m2'})

    def locked_at_last(self):
        """Return the lock of a machine that the driver locks from time to time."""
        locks = []
        self.until(lambda: locks.append(self.lock('m1')) or locks[-1] is not None)
        return locks[-1]

    def until_logged(self, text, step_s=0.1):
        with self.assertLogs('kiln', 'WARNING') as logged:
            self.until(lambda: any(text in line for line in logged.output), step_s)

    def test_closing_waits_for_a_probe_that_cannot_be_interrupted(self):
        silent = self.enterContext(socket.create_server(('127.0.0.1', 0)))
        silent.settimeout(120)
        url = f'http://127.0.0.1:{silent.getsockname()[1]}/'
        others = set(threading.enumerate())
        driver = self.open_driver(pool(1, each=f'probe = {{http = "{url}"}}\n'))
        driver.build(**METAL)
        stream, _ = silent.accept()
        hung_up = []
        hangs_up = threading.Timer(0.1, lambda: [hung_up.append(True), stream.close()])
        hangs_up.start()
        driver.close()
        self.assertEqual([True], hung_up)
        hangs_up.join()
        self.assertEqual(set(), set(threading.enumerate()) - others)

    def crew(self, inventory):
        crew = Crew(
            self.open_claims(), self.folder, None, inventory, rules=RULES, timeouts=Timeouts(),
            commands=1, probes=1, clock=self.clock,
        )  # fmt: skip
        self.addCleanup(crew.close)
        return crew

    def test_a_process_that_only_reads_and_ends_begins_no_work(self):
        inventory = Counting(parse(self.pool(1), 'inventory'))
        self.crew(inventory).start()
        give_up = time.monotonic() + 120
        while not self.clock.waiting:
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.001)
        self.assertEqual(0, inventory.looks)

    def test_a_crew_that_was_closed_before_it_began_does_not_begin(self):
        before = threading.active_count()
        crew = self.crew(Counting(parse(self.pool(1), 'inventory')))
        crew.close()
        crew.start()
        self.assertEqual(before, threading.active_count())

    def test_a_clock_that_was_set_back_makes_no_work_wait(self):
        driver = self.open_driver(pool(1, each='probe = {command = ["/bin/true"]}\n'))
        lock = self.lock('m1')
        driver.build(**METAL)
        self.clock.step(-86400.0)
        lock.close()
        self.until(lambda: self.states(driver) == {State.ACTIVE})

    def test_a_crew_without_work_looks_once_a_second_even_if_it_was_woken(self):
        inventory = Counting(parse(self.pool(1), 'inventory'))
        crew = self.crew(inventory)
        crew.start()
        self.until(lambda: inventory.looks)
        crew.wake()
        began = self.clock.monotonic()
        self.until(lambda: self.clock.monotonic() > began + 5)
        self.assertLessEqual(inventory.looks, 10)

    def test_a_poll_during_which_the_driver_is_closed_is_the_last_one(self):
        others = set(threading.enumerate())
        inventory = Closing(parse(self.pool(1), 'inventory'))
        inventory.crew = self.crew(inventory)
        inventory.crew.start()
        self.until(lambda: inventory.closed)
        for thread in set(threading.enumerate()) - others:
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def test_closing_ends_running_tasks_and_leaves_them_due(self):
        driver = self.open_driver(self.pool(2))
        for _ in range(2):
            driver.build(**METAL)
        self.until(lambda: self.running() == {'m1', 'm2'})
        tasks = [one for one in threading.enumerate() if one.name.startswith('kiln-appliance-m')]
        # A process that forgets to close ends all the same.
        self.assertEqual([True, True], [one.daemon for one in tasks])
        driver.close()
        self.assertEqual([], list((self.state_dir / 'run').iterdir()))
        self.gate.touch()
        again = self.open_driver()
        self.until(lambda: self.states(again) == {State.ACTIVE})
        self.assertEqual(['m1', 'm1', 'm2', 'm2'], self.log())
