"""Conductor process whose hooks are the executables of a directory.

    python -m tests.functional.hooks.process FOLDER [before|after NUMBER]

It exits with status 0 when no work is left. With a number it kills itself at that
commit.
"""

import contextlib
import pathlib
import sys
import time

from kiln.hooks.loading import load_hooks
from kiln.hooks.registry import Hooks
from kiln.testing.clusters.crash_runs.crashing_worker import (
    Crash,
    CrashingStore,
    CrashPoint,
    Moment,
)
from tests.functional.hooks.site import conducting, open_cloud, open_site_store

POLL_S = 0.01
#: Longer than the parent process waits.
LONGEST_S = 300.0


def main(folder, where='', number='0'):
    moment = Moment(f'{where} commit') if where else Moment.AFTER_COMMIT
    crash = Crash(CrashPoint(moment=moment, number=int(number)))
    store = CrashingStore(open_site_store(folder), crash)
    end = time.monotonic() + LONGEST_S
    hooks = Hooks(load_hooks(directory=pathlib.Path(folder, 'hooks.d')))
    with contextlib.closing(hooks), conducting(store, open_cloud(folder), hooks=hooks):
        while store.anything_left():
            if time.monotonic() > end:
                return 1
            time.sleep(POLL_S)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
