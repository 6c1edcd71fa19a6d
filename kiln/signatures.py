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
        expected = f'{name}({", ".join(map(str, _parameters(ours)))})'
        if not callable(theirs):
            yield f'{name} is no method, and should be {expected}'
        elif _parameters(theirs) != _parameters(ours):
            yield f'{name}{inspect.signature(theirs)} should be {expected}'


def _parameters(function: Any) -> list[inspect.Parameter]:
    # Names, kinds and defaults are what a caller depends on; annotations may
    # be written in more than one way.
    return [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
