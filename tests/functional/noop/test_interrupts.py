"""Signal handlers that raise, as for Ctrl-C, at any point of a build."""

import concurrent.futures
import sys
import threading
import unittest

import kiln

#: Seconds; close() itself waits up to ten seconds for operations of unknown state.
HANGS_S = 120.0


class Raised(BaseException):
    pass


class Interrupted(threading.Thread):
    """Builds two machines and closes the backend; raises at one point meanwhile."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self.place, self.places = place, 0
        self.closed = False

    def run(self):
        compute = kiln.open_compute('noop')
        try:
            sys.setprofile(self.profile)
            built = [compute.build(amphora_flavor='small', until='active') for _ in range(2)]
            for operation in built:
                operation.exception()
        # During a wait Python raises a RuntimeError instead: it releases a lock that it has
        # not acquired again.
        except (Raised, RuntimeError):
            pass
        finally:
            sys.setprofile(None)
            compute.close(keep_builds=True)
            self.closed = True

    def profile(self, frame, event, arg):
        # Python runs signal handlers at the start of a function and after a call of a C
        # function. The functions of these two modules are Python code around a lock.
        module = frame.f_globals.get('__name__')
        if event in ('call', 'c_return') and module in ('threading', 'queue'):
            self.places += 1
            if self.places == self.place:
                sys.setprofile(None)
                raise Raised


class Interrupts(unittest.TestCase):
    def test_close_never_hangs_after_a_signal_handler_raises_within_a_lock(self):
        whole = Interrupted(0)
        whole.start()
        whole.join(HANGS_S)
        self.assertGreater(whole.places, 30)

        def closes(place):
            thread = Interrupted(place)
            thread.start()
            thread.join(HANGS_S)
            return thread.closed

        with concurrent.futures.ThreadPoolExecutor(whole.places) as pool:
            ends = list(pool.map(closes, range(1, whole.places + 1)))
        self.assertEqual([], [place for place, closed in enumerate(ends, 1) if not closed])
