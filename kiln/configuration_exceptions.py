"""The root of all errors, and those of what is configured and installed.

Part of :mod:`kiln.exceptions`, where callers import them from.
"""

from __future__ import annotations

from typing import Any, ClassVar

from kiln.advice import Advice
from kiln.masking import redact


class KilnError(Exception):
    """The root of all errors that kiln raises."""

    code: ClassVar[str] = 'kiln_error'
    remedy: ClassVar[str] = 'Read the message; it names the object and the next step.'
    #: What to do now, and whether the same call may succeed later, which agree. An
    #: instance may know better than its class.
    advice: Advice = Advice.REPAIR
    retryable: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A class of a vendor that says one of both must not contradict itself.
        own = vars(cls)
        if 'advice' in own:
            cls.retryable = cls.advice.again
        elif 'retryable' in own:
            cls.advice = agreeing(cls.advice, retryable=bool(own['retryable']))

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


def agreeing(advice: Advice, *, retryable: bool) -> Advice:
    """Return the advice, or the nearest one that agrees with ``retryable``."""
    if advice.again == retryable:
        return advice
    return Advice.WAIT if retryable else Advice.REPAIR


class ConfigurationError(KilnError):
    """The configuration cannot be used as it is written."""

    code = 'configuration_error'
    remedy = 'Correct the named option or group.'


class DriverNotFound(ConfigurationError):
    """No installed driver has the name asked for."""

    code = 'driver_not_found'
    remedy = 'Choose one of the listed drivers, or install the package that has it.'


class DriverLoadError(ConfigurationError):
    """A driver is installed but cannot be loaded."""

    code = 'driver_load_error'
    remedy = 'Repair the driver, or install a version of it that works.'
    #: The command that installs the extra it needs; None where no extra is the cause.
    install: str | None = None

    def __init__(self, message: str, *, install: str | None = None) -> None:
        super().__init__(message)
        self.install = install


class DriverConflict(ConfigurationError):
    """Two installed packages offer a driver of one name."""

    code = 'driver_conflict'
    remedy = 'Uninstall one of the named packages.'
