"""Whether a class can be called as the contract that it fills in says."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any


def differing_signatures(
    contract: type, driver_class: type, names: Iterable[str]
) -> Iterator[str]:
    """Yield a sentence on each method that takes other arguments than the contract's."""
    for name in names:
        ours, theirs = getattr(contract, name), getattr(driver_class, name)
        if not inspect.isfunction(ours):
            continue
        expected = _plain(ours)
        if not callable(theirs):
            yield f'{name} is no method, and should be {name}{expected}'
        elif _plain(theirs) != expected:
            yield f'{name}{_plain(theirs)} should be {name}{expected}'


def _plain(function: Any) -> inspect.Signature:
    # Names, kinds and defaults are what a caller depends on; annotations may
    # be written in more than one way.
    signature = inspect.signature(function)
    return signature.replace(
        parameters=[
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in signature.parameters.values()
        ],
        return_annotation=inspect.Signature.empty,
    )
