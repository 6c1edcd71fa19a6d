"""A conductor in a process of its own that kills itself at a commit.

    python -m tests.functional.engine.mortal FOLDER before|after NUMBER

It ends by itself, with 0, once nothing is to be done.
"""

import contextlib
import os
import signal
import sys
import time

from tests.functional.engine.site import conducting, open_cloud, open_site_store

POLL_S = 0.01
#: Whoever started it gives up before.
LONGEST_S = 60.0


class MortalStore:
    """A store in which a commit is the last thing that is done, or would have been."""

    def __init__(self, store, where, number):
        self._store = store
        self._where = where
        self._left = number

    def __getattr__(self, name):
        return getattr(self._store, name)

    @contextlib.contextmanager
    def writing(self, lease):
        self._left -= 1
        last = not self._left
        with self._store.writing(lease) as batch:
            yield batch
            if last and self._where == 'before':
                os.kill(os.getpid(), signal.SIGKILL)
        if last and self._where == 'after':
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder, where, number):
    store = open_site_store(folder)
    end = time.monotonic() + LONGEST_S
    with conducting(MortalStore(store, where, int(number)), open_cloud(folder)):
        while any(store.operations.open(cluster.id) for cluster in store.clusters.list()):
            if time.monotonic() > end:
                return 1
            time.sleep(POLL_S)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
