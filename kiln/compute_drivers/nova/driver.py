"""The Nova driver: opens a backend, with notifications or without."""

from __future__ import annotations

from typing import Any, Self, cast

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.nova.servers import ServerDriver
from kiln.exceptions import ConfigurationError
from kiln.plugins.extras import importing


class NovaDriver(ServerDriver):
    """Builds amphorae as servers of one project of one Nova.

    It builds virtual machines only, and needs microversion 2.52 or newer. Nova accepts a
    build before it looks for a host, so lack of capacity shows only after the build began.
    States are polled, unless ``notification_url`` is set.
    """

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        made = cast('type[Self]', _listening()) if conf.notification_url else cls
        driver = made(conf, clock=clock)
        driver.name, driver.owner, driver.opened_with = name, owner, conf
        return driver


def _listening() -> type[ServerDriver]:
    # What reads notifications is an extra, and most sites have no need of it.
    with importing('Cannot listen to notifications', ConfigurationError):
        from kiln.compute_drivers.nova.notifications.listening import ListeningDriver
    return ListeningDriver
