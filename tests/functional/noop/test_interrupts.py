"""A signal handler that raises, as for Ctrl-C, at any place of a build."""

import concurrent.futures
import sys
import threading
import unittest

import kiln

#: Seconds; close() itself waits ten for what it cannot tell is over.
HANGS_S = 120.0


class Raised(BaseException):
    pass


class Interrupted(threading.Thread):
    """Builds two machines and closes; at one place something is raised."""

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
        # In the middle of a wait Python raises another error in its place: it lets a lock
        # go that it has not taken again yet.
        except (Raised, RuntimeError):
            pass
        finally:
            sys.setprofile(None)
            compute.close(keep_builds=True)
            self.closed = True

    def profile(self, frame, event, arg):
        # Python runs handlers where a function begins, and after each call of one in C. Those
        # of these two modules are Python code around a lock.
        module = frame.f_globals.get('__name__')
        if event in ('call', 'c_return') and module in ('threading', 'queue'):
            self.places += 1
            if self.places == self.place:
                sys.setprofile(None)
                raise Raised


class Interrupts(unittest.TestCase):
    def test_wherever_a_handler_raises_within_a_lock_the_end_never_hangs(self):
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
