"""What each thread does: seen at any moment, and nothing waits for it."""

import gc
import sys
import threading
import unittest

from kiln.telemetry.frames import current_frames


class Kept:
    """Something that collections look at."""


class Frames(unittest.TestCase):
    def test_the_frame_of_each_thread_is_found_by_its_identifier(self):
        begun, may_end = threading.Event(), threading.Event()

        def stands_here():
            begun.set()
            may_end.wait()

        thread = threading.Thread(target=stands_here)
        thread.start()
        begun.wait()
        frame = current_frames()[thread.ident]
        names = []
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        may_end.set()
        thread.join()
        self.assertIn('stands_here', names)

    def test_garbage_is_collected_afterwards_as_before(self):
        self.addCleanup(gc.enable)
        for collects in (True, False):
            with self.subTest(collects=collects):
                gc.enable() if collects else gc.disable()
                current_frames()
                self.assertIs(gc.isenabled(), collects)

    def test_no_collection_begins_in_the_midst_of_it(self):
        """One that lets another thread run, by a finalizer, could wait for ever there."""
        inside, collected = [], []

        def profile(frame, event, function):
            if getattr(function, '__name__', '') == '_current_frames':
                inside[:] = [event] if event == 'c_call' else []

        def collect(phase, details):
            collected.extend(inside)

        self.addCleanup(gc.set_threshold, *gc.get_threshold())
        self.addCleanup(gc.callbacks.remove, collect)
        gc.callbacks.append(collect)
        self.addCleanup(sys.setprofile, sys.getprofile())
        sys.setprofile(profile)
        may_end = threading.Event()
        self.addCleanup(may_end.set)
        gc.set_threshold(200)
        for count in range(180, 200, 3):
            # Python makes an object for the frames of each new thread.
            for _ in range(10):
                threading.Thread(target=may_end.wait, daemon=True).start()
            gc.collect(0)
            # With one of these counts a collection would fall into the call.
            kept = [Kept() for _ in range(count)]
            current_frames()
            kept.clear()
        self.assertEqual(collected, [])
