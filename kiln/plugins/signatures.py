"""Signature check of drivers: compares the methods of a class with its contract."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Any


def differing_signatures(
    contract: type, driver_class: type, names: Iterable[str]
) -> Iterator[str]:
    """Yield a sentence for each method whose arguments differ from the contract."""
    for name in names:
        ours, theirs = getattr(contract, name), getattr(driver_class, name)
        if theirs is ours or not inspect.isfunction(ours):
            continue
        expected = _expected(ours)
        if not callable(theirs):
            yield f'{name} is not a method, and should be {name}{expected}'
        elif _plain(theirs) != expected:
            yield f'{name}{_plain(theirs)} should be {name}{expected}'


@functools.cache
def _expected(method: types.FunctionType) -> inspect.Signature:
    # That of a contract, which every class is compared with.
    return _plain(method)


def _plain(function: Any) -> inspect.Signature:
    # Callers depend on names, kinds and defaults; annotations can be written in
    # several ways.
    signature = inspect.signature(function)
    return signature.replace(
        parameters=[
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in signature.parameters.values()
        ],
        return_annotation=inspect.Signature.empty,
    )
