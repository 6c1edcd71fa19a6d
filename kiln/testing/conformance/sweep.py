"""Cleanup of the instances that a run of the kit has built."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from kiln.clock import Clock, Deadline
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import State
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.executor.executor import ExecutorDriver

LOG = logging.getLogger(__name__)

T = TypeVar('T')

#: The guards that a Compute adds; a driver cannot have the same guard twice.
_GUARDS = (BreakerDriver, ExecutorDriver)

_STEP_S = 2.0
#: Steps in seconds while deleted instances go.
_FIRST_STEP_S, _GROWTH = 0.05, 1.25


def other_owner(prefix: str) -> str:
    """Return the owner that stands for another site in a run."""
    return f'{prefix}-other'


def owner_in_other_case(owner: str) -> str:
    """Return the owner that differs from another only in capitals, if it has letters."""
    return owner.swapcase()


def pass_time(clock: Clock, seconds: float) -> None:
    """Let time pass; a test clock is advanced and takes no real time."""
    getattr(clock, 'advance', clock.sleep)(seconds)


def sweep(driver: AmphoraComputeDriver, prefix: str, known: Collection[str] = ()) -> list[str]:
    """Delete all known instances and all with the prefix; return their ids."""
    doomed = dict.fromkeys(known)
    owners = [driver.owner, other_owner(prefix)]
    if not known:
        # What one behaviour builds for this owner, it knows, unless it was interrupted.
        owners.append(owner_in_other_case(driver.owner))
    for owner in owners:
        doomed |= dict.fromkeys(_listed(driver, prefix, owner))
    for amphora_id in doomed:
        clear(driver.delete, amphora_id)
    return list(doomed)


def remains(
    driver: AmphoraComputeDriver, prefix: str, clock: Clock, timeout_s: float
) -> tuple[str, ...]:
    """Sweep until nothing is left or time runs out; return the ids of what is left."""
    deadline = Deadline.after(timeout_s, clock)
    while (left := sweep(driver, prefix)) and not deadline.passed:
        pass_time(clock, _STEP_S)
    return tuple(left)


def wait_until_gone(
    driver: AmphoraComputeDriver, doomed: Iterable[str], clock: Clock, timeout_s: float
) -> None:
    """Wait until the backend no longer has instances that were deleted, or time runs out."""
    deadline, step_s = Deadline.after(timeout_s, clock), _FIRST_STEP_S
    left = list(doomed)
    while (left := [one for one in left if _is_there(driver, one)]) and not deadline.passed:
        pass_time(clock, step_s)
        step_s = min(step_s * _GROWTH, _STEP_S)


def _is_there(driver: AmphoraComputeDriver, amphora_id: str) -> bool:
    try:
        return driver.status(amphora_id).state is not State.DELETED
    except InstanceNotFoundError:
        return False
    # As in clear(): a wrong driver can raise anything, and an error does not show an end.
    except Exception:
        return True


def clear(delete: Callable[[T], None], one: T) -> None:
    """Delete one object; a failure is only logged, as the verdict is already known."""
    try:
        delete(one)
    # A wrong driver can raise anything.
    except Exception as exc:
        LOG.warning('Conformance run might leave %s behind: %s', one, exc)


def _listed(driver: AmphoraComputeDriver, prefix: str, owner: str) -> list[str]:
    try:
        return [
            amphora.id
            for amphora in driver.list_amphorae(owner=owner)
            if (amphora.build_key or amphora.name).startswith(prefix)
        ]
    # As above.
    except Exception as exc:
        LOG.warning('Conformance run cannot list what it leaves behind: %s', exc)
        return []


def without_guards(driver: AmphoraComputeDriver) -> AmphoraComputeDriver:
    """Return the outermost layer of a driver below the guards of a Compute."""
    outermost, layer = driver, driver
    while isinstance(layer, DriverWrapper):
        if isinstance(layer, _GUARDS):
            outermost = layer.inner
        layer = layer.inner
    return outermost
