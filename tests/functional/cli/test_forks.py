"""Tests of real processes after a fork, after their main thread, and at their exit.

Each test runs a separate program, which is killed if it hangs. KILN_FORKS is the number of
forks while all threads work.
"""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).parents[3]
#: Longer than any correct wait.
_HANGS_S = 900

_BEGIN = """
import os, sys, threading, time
import kiln, kiln.conf
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import AmphoraComputeError, ForkedError

def states():
    cloud = NoopCloud(sys.argv[1] + '/cloud')
    found = sorted((one.name, one.state.value) for one in cloud.instances())
    cloud.close()
    return found

def until(so):
    give_up = time.monotonic() + 600
    while not so():
        assert time.monotonic() < give_up, 'it never came'
        time.sleep(0.005)

def in_child(work):
    # The child is killed after a while, because it might hang.
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0, 'the child failed'

def error_of(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except AmphoraComputeError as exc:
        return type(exc).__name__
    return 'none'
"""

_OPEN = """
compute = kiln.open_compute('east', conf=kiln.conf.load([sys.argv[1] + '/kiln.conf']))
"""

_IN_FLIGHT = """
called = []
operation = compute.build(name='of-the-parent', build_key='k', until='active')
operation.add_done_callback(lambda done: called.append(os.getpid()))
until(lambda: operation.amphora_id)
"""


class Program(unittest.TestCase):
    def run_program(self, *parts, build_s=1):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / 'kiln.conf').write_text(
            f'[compute:east]\ndriver = noop\npath = {folder}/cloud\nbuild_s = {build_s}\n'
        )
        program = folder / 'program.py'
        program.write_text(_BEGIN + ''.join(textwrap.dedent(part) for part in parts))
        done = subprocess.run(
            [sys.executable, program, folder], cwd=ROOT, capture_output=True, text=True,
            timeout=_HANGS_S, check=False,
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        self.told_errors = done.stderr
        return done.stdout.split()


class Forks(Program):
    def test_d6_the_child_continues_with_its_own_driver(self):
        told = self.run_program(_OPEN, _IN_FLIGHT, """
            def child():
                built = compute.build(name='of-the-child', until='active', timeout=600).result(600)
                compute.delete(built, wait=True, timeout=600).result(600)
                print(*[one.name for one in compute.list_amphorae().result(600)])
                compute.close()
            in_child(child)
            print(operation.result(600) == operation.amphora_id, *states())
            compute.close()
        """)  # fmt: skip
        self.assertEqual(['of-the-parent', 'True', "('of-the-parent',", "'active')"], told)

    def test_d6_operations_of_the_parent_fail_at_once_in_the_child(self):
        for attempt in range(9):
            told = self.forked_in_flight(build_s=2**attempt)
            # The build ended before the fork.
            if told != ['late', 'True']:
                break
        self.assertEqual(['[]', 'True'], told)

    def forked_in_flight(self, build_s):
        return self.run_program(_OPEN, _IN_FLIGHT, """
            watched = compute.watch(operation.amphora_id, {'error'})
            compute._stack.driver.cloud.faults.add(Fault(call='list', action='hang', seconds=1e6))
            hung = compute.list_amphorae()
            def child():
                if operation.exception(0) is None:
                    return print('late')
                for one in (operation, watched, hung):
                    error = one.exception(0)
                    assert isinstance(error, ForkedError), error
                    assert 'belongs to the parent process' in str(error), error
                    advice = 'repeat' if one is operation else 'look'
                    assert error.advice == advice, error.advice
                assert not operation.cancel()
                late = threading.Event()
                operation.add_done_callback(lambda _: late.set())
                assert late.wait(600)
                print(called)
            in_child(child)
            print(operation.result(600) == operation.amphora_id)
            until(lambda: called == [os.getpid()])
            compute.close(0.1)
        """, build_s=build_s)  # fmt: skip

    def test_a_machine_built_in_the_child_with_the_key_of_the_parents_build_stays(self):
        told = self.run_program(_OPEN, """
            probe = kiln.TcpProbe(9, timeout_s=0.1)
            operation = compute.build(name='x', until='ready', probe=probe, timeout=600)
            until(lambda: operation.amphora_id)
            def child():
                key = operation.build_key
                again = compute.build(name='x', build_key=key, until='active', timeout=600)
                print(again.result(600) == operation.amphora_id)
                compute.close()
            in_child(child)
            compute.close()
            print(operation.exception(0).outcome, *states())
        """)  # fmt: skip
        self.assertEqual(['True', 'applied', "('x',", "'active')"], told)

    def test_d6_the_child_never_removes_machines_of_the_parent(self):
        told = self.run_program(_OPEN, _IN_FLIGHT, """
            import gc
            def leave_block():
                with compute:
                    pass
            def drop():
                globals()['compute'] = None
                gc.collect()
            def cancel():
                operation.cancel()
                compute.close()
            def use_and_close():
                compute.list_amphorae().result(600)
                compute.close()
            for end in (compute.close, leave_block, drop, cancel, use_and_close):
                in_child(end)
            # A child that exits like an interpreter.
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            print(operation.result(600) == operation.amphora_id, *states())
            compute.close()
        """)  # fmt: skip
        self.assertEqual(['True', "('of-the-parent',", "'active')"], told)

    def test_a_passed_driver_is_refused_at_once_in_the_child(self):
        told = self.run_program("""
            compute = Compute(NoopDriver(cloud=NoopCloud(sys.argv[1] + '/cloud', build_s=1)))
        """, _IN_FLIGHT, """
            def child():
                print(compute.name, error_of(compute.check), error_of(compute.build))
                compute.close()
            in_child(child)
            print(operation.result(600) == operation.amphora_id)
            compute.close()
        """)  # fmt: skip
        self.assertEqual(['noop', 'ForkedError', 'ForkedError', 'True'], told)

    def test_a_backend_closed_before_the_fork_stays_closed(self):
        told = self.run_program(_OPEN, """
            compute.close()
            in_child(lambda: print(error_of(compute.check)))
        """)  # fmt: skip
        self.assertEqual(['OperationRejected'], told)

    def test_a_backend_unused_before_the_fork_works_in_both_processes(self):
        told = self.run_program(_OPEN, """
            def use():
                compute.build(name='one', until='active', timeout=600).result(600)
                compute.close()
            in_child(use)
            use()
            print(len(states()))
        """)  # fmt: skip
        self.assertEqual(['2'], told)

    def test_a_fork_while_threads_hold_every_lock_blocks_no_process(self):
        told = self.run_program(_OPEN, """
            over = threading.Event()
            def work():
                while not over.is_set():
                    compute.check().exception()
                    compute.latest('x')
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            def child():
                compute.check().result(600)
                compute.close()
            for _ in range(int(os.environ.get("KILN_FORKS", "3"))):
                in_child(child)
            over.set()
            for thread in threads:
                thread.join()
            compute.close()
            print('done')
        """)  # fmt: skip
        self.assertEqual(['done'], told)

    def test_a_fork_within_a_callback_leaves_the_parents_queue_to_the_parent(self):
        told = self.run_program(_OPEN, """
            ended = threading.Event()
            def fork(_):
                in_child(lambda: compute.check().result(600))
                ended.set()
            compute.check().add_done_callback(fork)
            assert ended.wait(600)
            compute.close()
            print('done')
        """)  # fmt: skip
        self.assertEqual(['done'], told)


_HUNG = """
cloud = NoopCloud(sys.argv[1] + '/cloud')
cloud.faults.add(Fault(call='*', action='hang', seconds=1e6))
compute = Compute(NoopDriver(cloud=cloud))
hung = [compute.status('x') for _ in range(30)]
hung += [compute.build(build_key=str(n), until='active') for n in range(9)]
hung += [compute.watch('x')]
until(lambda: sum('-lane-' in thread.name for thread in threading.enumerate()) > 5)
"""


class Exits(Program):
    def test_d8_the_exit_does_not_wait_for_hanging_calls(self):
        self.assertEqual(['end'], self.run_program(_HUNG, "print('end')"))

    def test_d8_the_exit_after_closing_does_not_wait_for_hanging_calls(self):
        for close in ('compute.close(0.1)', 'compute.close(0.1, keep_builds=True)'):
            with self.subTest(close):
                self.assertEqual(['end'], self.run_program(_HUNG, close, "\nprint('end')"))

    def test_d8_the_exit_does_not_wait_for_hanging_callbacks_and_probes(self):
        told = self.run_program("""
            compute = Compute(NoopDriver(cloud=NoopCloud(sys.argv[1] + '/cloud')))
            inside = threading.Semaphore(0)
            hang = lambda _: inside.release() or time.sleep(1e6)
            compute.check().add_done_callback(hang)
            compute.build(until='ready', probe=hang, on_status=hang)
            for _ in range(3):
                assert inside.acquire(timeout=600)
            print('end')
        """)  # fmt: skip
        self.assertEqual(['end'], told)

    def test_the_exit_leaves_builds_in_flight_in_the_backend(self):
        self.assertEqual(["('of-the-parent',", "'building')"], self.run_program(
            _OPEN, _IN_FLIGHT, 'print(*states())', build_s=3600
        ))  # fmt: skip


_AFTER_MAIN = """
compute = Compute(NoopDriver(cloud=NoopCloud()))
def work():
    threading.main_thread().join()
    began = time.monotonic()
    error = compute.build(until='active', timeout=600).exception()
    print(type(error).__name__, getattr(error, 'outcome', ''), time.monotonic() - began < 300)
    print(error, file=sys.stderr)
    compute.close()
threading.Thread(target=work).start()
"""


class AfterTheMainThread(Program):
    def test_the_first_call_fails_at_once_with_the_reason(self):
        told = self.run_program(_AFTER_MAIN)
        self.assertEqual(['OperationRejected', 'not_applied', 'True'], told)
        self.assertRegex(
            self.told_errors,
            r'\ACannot build .*: the interpreter is ending and starts no more threads\. It was '
            r'never sent\. Make the first call before the main thread ends\.\n\Z',
        )

    def test_a_backend_that_was_called_before_continues(self):
        first = 'Compute(NoopDriver(cloud=NoopCloud())).list_amphorae().result()\n'
        self.assertEqual(['NoneType', 'True'], self.run_program(first, _AFTER_MAIN))
