"""What a backend says of amphorae, in parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import ComputeStatus
from kiln.wrappers.watch_table import missing


class Answer(NamedTuple):
    """Part of what the backend said; the gone are known to be gone."""

    statuses: Iterable[ComputeStatus]
    gone: Iterable[str] = ()


def answer_by_id(driver: AmphoraComputeDriver, amphora_ids: tuple[str, ...]) -> Answer:
    """Ask for some by their ids."""
    found = driver.statuses(amphora_ids)
    return Answer(found.values(), missing(amphora_ids, found))
