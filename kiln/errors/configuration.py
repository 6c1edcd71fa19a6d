"""KilnError, the root of all errors, and the configuration errors.

Part of :mod:`kiln.exceptions`, where callers import them from.
"""

from __future__ import annotations

from typing import Any, ClassVar

from kiln.errors.advice import Advice
from kiln.errors.masking import LONGEST, told


class KilnError(Exception):
    """Root of all errors that kiln raises."""

    code: ClassVar[str] = 'kiln_error'
    remedy: ClassVar[str] = 'Read the message; it names the object and the next step.'
    #: What to do now, and whether the same call can succeed later. The two always agree,
    #: and an instance can override the default of its class.
    advice: Advice = Advice.REPAIR
    retryable: bool = False
    #: Characters after which the text of an error is cut: others choose much of it.
    longest: ClassVar[int] = 4096

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A vendor's class that sets only one of the two must not contradict itself.
        own = vars(cls)
        if 'advice' in own:
            cls.retryable = cls.advice.again
        elif 'retryable' in own:
            cls.advice = agreeing(cls.advice, retryable=bool(own['retryable']))

    def __init__(self, message: str) -> None:
        super().__init__(told(message, self.longest))


def agreeing(advice: Advice, *, retryable: bool) -> Advice:
    """Return the advice, or the closest advice that agrees with ``retryable``."""
    if advice.again == retryable:
        return advice
    return Advice.WAIT if retryable else Advice.REPAIR


class ConfigurationError(KilnError):
    """The configuration is invalid."""

    code = 'configuration_error'
    # One line for each mistake in a file.
    longest = LONGEST
    remedy = 'Correct the named option or group.'


class DriverNotFound(ConfigurationError):
    """No installed driver has the requested name."""

    code = 'driver_not_found'
    remedy = 'Choose one of the listed drivers, or install the package that provides it.'


class DriverLoadError(ConfigurationError):
    """A driver is installed but cannot be loaded."""

    code = 'driver_load_error'
    remedy = 'Repair the driver, or install a working version.'
    #: The command that installs the missing extra; None if no extra is missing.
    install: str | None = None

    def __init__(self, message: str, *, install: str | None = None) -> None:
        super().__init__(message)
        self.install = install


class DriverConflict(ConfigurationError):
    """Two installed packages provide a driver of the same name."""

    code = 'driver_conflict'
    remedy = 'Uninstall one of the named packages.'
