"""The same as controller.py, for a program that lives on an event loop."""

import asyncio
import json
import pathlib
import signal
import sys
from collections.abc import Collection
from typing import Any

import kiln
from kiln.exceptions import AmphoraComputeError


async def settle(compute: kiln.Compute, wanted: Collection[str]) -> float:
    """Ask for all that is wanted and for nothing else; return a pause before the next try."""
    there = await compute.list_amphorae()
    operations: list[kiln.Operation[Any]] = [
        compute.delete(amphora.id, wait=True) for amphora in there if amphora.name not in wanted
    ]
    operations += [
        compute.build(amphora_flavor='small', name=name, build_key=name, until='active')
        for name in wanted
    ]
    outcomes = await asyncio.gather(*operations, return_exceptions=True)
    return max((how_long(one) for one in outcomes if isinstance(one, BaseException)), default=0.0)


def how_long(error: BaseException) -> float:
    """Return the seconds to wait before everything is asked again, or raise the error."""
    if not isinstance(error, AmphoraComputeError) or not error.advice.again:
        # The message says what somebody has to repair.
        raise error
    return error.retry_after or 0.2


async def main(path: str) -> None:
    """Settle until all is as it is wanted."""
    wanted = json.loads(pathlib.Path(path).read_text())
    if (task := asyncio.current_task()) is not None:
        # What it awaits raises CancelledError, so it closes on its way out.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    # To open a backend reads files, and to close one waits: neither is for the loop.
    compute = await asyncio.to_thread(kiln.open_compute, 'noop')
    try:
        while True:
            try:
                pause_s = await settle(compute, wanted)
            # A failed list, or an immediate refusal, does not end the loop either.
            except AmphoraComputeError as error:
                pause_s = how_long(error)
            if not pause_s:
                break
            await asyncio.sleep(pause_s)
    finally:
        # Whatever ends this program, the next one goes on with the builds in flight.
        await compute.aclose(keep_builds=True)
    print(f'{len(wanted)} machines, as wanted')


if __name__ == '__main__':
    try:
        asyncio.run(main(sys.argv[1]))
    except asyncio.CancelledError:
        sys.exit(143)
