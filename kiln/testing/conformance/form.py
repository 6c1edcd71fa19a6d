"""Form of a driver: what it must have before any behaviour can be judged.

A hook that is missing breaks every behaviour. So the form is judged first, a wrong form is
one failure, and the behaviours are then not run.
"""

from __future__ import annotations

import functools
import inspect
import unittest
from collections.abc import Callable, Iterable

from kiln.compute_drivers.authoring.bench import Bench, bench_of
from kiln.compute_drivers.base import CONTRACT_VERSION, AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import DriverLoadError, KilnError
from kiln.testing.conformance.wording import error_in_words, in_words
from kiln.testing.report import failure

# As in runner.py.
__unittest = True


class WrongForm(Exception):
    """The form of a driver is wrong; ``behaviour`` names the behaviour that shows it."""

    def __init__(self, behaviour: str, expected: str, seen: str, *read: object) -> None:
        super().__init__(failure(expected, seen, read))
        self.behaviour = behaviour


class WrongBench(WrongForm):
    """The bench of a driver cannot be made, whatever the reason."""


def open_checked(
    make_driver: Callable[[], AmphoraComputeDriver],
) -> tuple[AmphoraComputeDriver, Bench]:
    """Open a driver whose form is right; return it with its bench.

    :raises WrongForm: it cannot be opened, or breaks the contract, or has no such bench.
    """
    opens = 'test_the_driver_opens_with_its_bench'
    try:
        driver = make_driver()
    except unittest.SkipTest:
        raise
    # A wrong driver can raise anything.
    except Exception as exc:
        # An error of kiln says itself what is wrong, and where.
        seen = in_words(exc) if isinstance(exc, KilnError) else error_in_words(exc)
        expected = 'make_driver() opens the driver'
        raise WrongForm(opens, expected, seen, AmphoraComputeDriver) from exc
    try:
        check_form(type(driver))
        return driver, _bench_of(driver)
    except DriverLoadError as exc:
        driver.close()
        raise WrongForm(opens, 'the bench of the driver', in_words(exc), Bench) from exc
    except WrongForm:
        if isinstance(driver, AmphoraComputeDriver):
            driver.close()
        raise


def _bench_of(driver: AmphoraComputeDriver) -> Bench:
    try:
        return bench_of(driver)
    except DriverLoadError:
        raise
    # A wrong bench can raise anything.
    except Exception as exc:
        driver.close()
        layer = driver
        while hasattr(layer, 'inner'):
            layer = layer.inner
        name = getattr(layer, 'bench', None)
        opens = 'test_the_driver_opens_with_its_bench'
        expected = f'{name}(driver) makes the bench of the driver'
        raise WrongBench(opens, expected, error_in_words(exc, layer), Bench) from exc


@functools.cache
def check_form(driver_class: type) -> None:
    """Check the class of a driver, which need not be an AmphoraComputeDriver at all.

    :raises WrongForm: it breaks the contract.
    """
    check_version(driver_class)
    check_public_methods(driver_class)
    check_hooks(driver_class)


def check_version(driver_class: type) -> None:
    """Check that a class is a driver for this version of the contract.

    :raises WrongForm: it is not.
    """
    behaviour, read = 'test_the_driver_is_written_for_this_contract', AmphoraComputeDriver
    if not issubclass(driver_class, AmphoraComputeDriver):
        raise WrongForm(behaviour, 'a subclass of AmphoraComputeDriver', str(driver_class), read)
    if driver_class.contract_version != CONTRACT_VERSION:
        raise WrongForm(
            behaviour,
            f'contract_version {CONTRACT_VERSION}, that of this kiln',
            f'contract_version {driver_class.contract_version!r}',
            read,
        )


def check_public_methods(driver_class: type) -> None:
    """Check the signatures of the public methods.

    :raises WrongForm: a caller could not call them as the contract allows.
    """
    public = inspect.getmembers(AmphoraComputeDriver, callable)
    _check_signatures(
        'test_public_methods_have_the_signatures_of_the_contract',
        driver_class,
        AmphoraComputeDriver,
        [name for name, _ in public if not name.startswith('_')],
    )


def check_hooks(driver_class: type) -> None:
    """Check the signatures of the hooks.

    :raises WrongForm: kiln could not call them.
    """
    _check_signatures(
        'test_hooks_have_the_signatures_of_the_contract',
        driver_class,
        ComputeHooks,
        [call.hook for call in Call],
    )


def _check_signatures(
    behaviour: str, driver_class: type, contract: type, names: Iterable[str]
) -> None:
    for name in names:
        theirs, ours = getattr(driver_class, name), getattr(contract, name)
        if not callable(theirs):
            raise WrongForm(behaviour, f'a method {name}()', f'{name} is {theirs!r}', ours)
        if not _accepts(_parameters(theirs), _parameters(ours)):
            raise WrongForm(behaviour, f'{name}{_plain(ours)}', f'{name}{_plain(theirs)}', ours)


def _accepts(theirs: list[inspect.Parameter], ours: list[inspect.Parameter]) -> bool:
    """Return True if a method accepts every call that the contract allows.

    Additional arguments are allowed if they have defaults.
    """
    more = theirs[len(ours) :]
    return theirs[: len(ours)] == ours and all(one.default is not one.empty for one in more)


def _parameters(method: Callable[..., object]) -> list[inspect.Parameter]:
    # Annotations can be written in several ways.
    parameters = inspect.signature(method).parameters.values()
    return [one.replace(annotation=inspect.Parameter.empty) for one in parameters]


def _plain(method: Callable[..., object]) -> inspect.Signature:
    return inspect.Signature(_parameters(method))
