"""Keeps the machines that a file names, however often this program is killed.

    python controller.py wanted.json

The file has a list of names. The program keeps no record of its own: the key of a build
is the name that is wanted, so to ask again is to go on, and what nobody wants any more
is found by listing what is there.
"""

import json
import pathlib
import signal
import sys
import time
from collections.abc import Collection
from typing import Any

import kiln
from kiln.exceptions import AmphoraComputeError


def settle(compute: kiln.Compute, wanted: Collection[str]) -> float:
    """Ask for all that is wanted and for nothing else; return a pause before the next try."""
    there = compute.list_amphorae().result()
    operations: list[kiln.Operation[Any]] = [
        compute.delete(amphora.id, wait=True) for amphora in there if amphora.name not in wanted
    ]
    operations += [
        compute.build(amphora_flavor='small', name=name, build_key=name, until='active')
        for name in wanted
    ]
    pause_s = 0.0
    # All of them are on their way by now; this waits for the slowest.
    for operation in operations:
        error = operation.exception()
        if error is not None:
            pause_s = max(pause_s, how_long(error))
    return pause_s


def how_long(error: BaseException) -> float:
    """Return the seconds to wait before everything is asked again, or raise the error."""
    if not isinstance(error, AmphoraComputeError) or not error.advice.again:
        # The message says what somebody has to repair.
        raise error
    return error.retry_after or 0.2


def main(path: str) -> None:
    """Settle until all is as it is wanted."""
    wanted = json.loads(pathlib.Path(path).read_text())
    compute = kiln.open_compute('noop')
    try:
        while True:
            try:
                pause_s = settle(compute, wanted)
            # A failed list, or an immediate refusal, does not end the loop either.
            except AmphoraComputeError as error:
                pause_s = how_long(error)
            if not pause_s:
                break
            time.sleep(pause_s)
    finally:
        # Whatever ends this program, the next one goes on with the builds in flight.
        compute.close(keep_builds=True)
    print(f'{len(wanted)} machines, as wanted')


if __name__ == '__main__':
    # Raise where the program is, so that it closes on its way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(sys.argv[1])
