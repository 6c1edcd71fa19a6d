"""What each thread of this process does at the moment."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

_LOCK = threading.Lock()


def current_frames() -> dict[int, FrameType]:
    """Return the frame that each thread is in, by the identifier of the thread."""
    # Before Python 3.11.9 a garbage collection in the midst of it can wait for ever: a
    # finalizer lets another thread run, and that one waits for the list of threads.
    with _LOCK:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()
