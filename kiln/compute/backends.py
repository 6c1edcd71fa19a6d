"""DriverManager and open_compute: configured backends, loaded and assembled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kiln import conf as kiln_conf
from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute.facade import Compute
from kiln.compute.loading import load_compute_driver
from kiln.compute.stack import StackSettings, check_listeners
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.conf import compute as compute_conf
from kiln.conf.unknown import unknown_options
from kiln.exceptions import ConfigurationError, DriverNotFound, InvalidRequest
from kiln.telemetry import default_listeners
from kiln.telemetry.events import Listener
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.rate import RateSettings
from kiln.wrappers.watcher.interval import WatcherSettings

LOG = logging.getLogger(__name__)


def open_compute(
    backend: str | None = None,
    *,
    conf: Any = None,
    clock: Clock = SYSTEM_CLOCK,
    listeners: Iterable[Listener] = (),
) -> Compute:
    """Open a backend by the name of its [compute:NAME] group, or of its driver.

    ``conf`` is an oslo.config ConfigOpts, such as ``kiln.conf.load()`` returns. Without
    it kiln.conf is read from the usual directories of OpenStack programs.

    It reads files and imports the driver: on an event loop use ``asyncio.to_thread``.

    :raises ConfigurationError: the backend does not exist or its configuration is invalid.
    :raises InvalidRequest: an argument is invalid.
    """
    if conf is not None and not callable(getattr(conf, 'register_opts', None)):
        raise InvalidRequest(
            f'conf must be an oslo.config ConfigOpts, such as kiln.conf.load() returns, '
            f'not {validation.quoted(conf)}.'
        )
    given = _checked(backend, clock, listeners)
    manager = DriverManager(kiln_conf.load() if conf is None else conf)
    return manager.open(backend, clock=clock, listeners=given)


class DriverManager:
    """Opens the backends of one configuration.

    Each option of a backend that nothing reads is reported once; by default it is logged.
    """

    def __init__(self, conf: Any, *, report: Callable[[str], None] = LOG.warning) -> None:
        self._conf = conf
        self._report = report
        self._reported: set[str] = set()
        self._site = kiln_conf.register(conf, compute_conf.GROUP, compute_conf.SITE_OPTS)

    @property
    def default_backend(self) -> str:
        """Name of the default backend."""
        name: str = self._site.default_backend
        return name

    def backends(self) -> list[str]:
        """Return the names of the configured backends."""
        return kiln_conf.backend_names(self._conf)

    def open(
        self,
        name: str | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        listeners: Iterable[Listener] = (),
        defaults: Mapping[str, Any] | None = None,
    ) -> Compute:
        """Return an assembled backend; its driver has not used the network so far.

        ``defaults`` are for options of the driver that its group leaves unset, for a
        controller that has its own names for these options.
        """
        name = self.default_backend if name is None else name
        reopen, settings = self._configured(name, clock, defaults or {})
        site = self._site
        notified = default_listeners(
            metrics=site.metrics,
            tracing=site.tracing,
            endpoint=site.tracing_endpoint,
            service=site.tracing_service,
        )
        return Compute(
            reopen(), settings=settings, listeners=(*notified, *listeners), reopen=reopen
        )

    def open_driver(
        self, name: str | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> AmphoraComputeDriver:
        """Return the bare driver of a backend without any guard, for tests and repairs."""
        reopen, _ = self._configured(self.default_backend if name is None else name, clock, {})
        return reopen()

    def _configured(
        self, name: str, clock: Clock, defaults: Mapping[str, Any]
    ) -> tuple[Callable[[], AmphoraComputeDriver], StackSettings]:
        group = f'{compute_conf.GROUP}:{name}'
        values = kiln_conf.register(self._conf, group, compute_conf.BACKEND_OPTS)
        try:
            settings = stack_settings(values)
        except ConfigurationError as exc:
            raise ConfigurationError(f'Cannot use the options of [{group}]: {exc}') from exc
        try:
            driver_class = load_compute_driver(values.driver or name)
        except DriverNotFound as exc:
            if values.driver or name in self.backends():
                raise
            configured = ', '.join(self.backends()) or 'none'
            raise DriverNotFound(
                f'Cannot open backend {name!r}: found neither a group [{group}] '
                f'(configured: {configured}) nor a driver of that name. {exc}'
            ) from exc
        options = kiln_conf.register(self._conf, group, driver_class.options, defaults)
        owner = self._site.owner
        unknown = unknown_options(
            self._conf, group, [*compute_conf.BACKEND_OPTS, *driver_class.options]
        )
        self._report_once(unknown)
        hint = ' '.join(['', *unknown])
        # A driver that needs no options is opened by its name alone.
        absent = '' if name in self.backends() else self._absence(group)

        def open_driver() -> AmphoraComputeDriver:
            try:
                return driver_class.open(options, name=name, owner=owner, clock=clock)
            except ConfigurationError as exc:
                why = f'{absent}{exc}{hint}'
                raise ConfigurationError(f'Cannot open backend {name!r}: {why}') from exc
            # A vendor's constructor can raise anything; operators need one line.
            except Exception as exc:
                raise ConfigurationError(
                    f'Cannot open backend {name!r}: its driver refuses the options of '
                    f'[{group}]: {exc}{hint}'
                ) from exc

        return open_driver, settings

    def _report_once(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            if sentence not in self._reported:
                self._reported.add(sentence)
                self._report(sentence)

    def _absence(self, group: str) -> str:
        configured = ', '.join(self.backends())
        return f'there is no group [{group}]; there are: {configured}. ' if configured else ''


def _checked(
    backend: object, clock: object, listeners: Iterable[Listener]
) -> tuple[Listener, ...]:
    """Return the listeners; raise if an argument is wrong, and name what it must be."""
    if backend is not None:
        validation.check_text('backend', backend)
    for needed in ('monotonic', 'time', 'sleep', 'wait'):
        if not callable(getattr(clock, needed, None)):
            raise InvalidRequest(
                f'clock must be a kiln.clock.Clock, which has {needed}(), '
                f'not {validation.quoted(clock)}.'
            )
    return check_listeners(listeners)


def stack_settings(values: Any) -> StackSettings:
    """Return the settings of the wrappers from a backend's options."""
    return StackSettings(
        executor=ExecutorSettings(
            max_workers=values.max_workers,
            read_workers=values.read_workers,
            build_workers=values.build_workers,
            change_workers=values.change_workers,
            max_queue=values.max_queue,
            timeout_s=values.call_timeout,
            cleanup_timeout_s=values.cleanup_timeout,
        ),
        circuit=CircuitSettings(
            failure_rate=values.circuit_failure_rate,
            minimum_calls=values.circuit_minimum_calls,
            window_s=values.circuit_window,
            slow_call_s=values.circuit_slow_call,
            slow_call_rate=values.circuit_slow_rate,
            open_s=values.circuit_open,
            open_max_s=max(values.circuit_open, values.circuit_open_max),
        ),
        circuit_storage=_redis_storage(values.circuit_redis_url),
        rate=None
        if values.rate is None
        else RateSettings(rate_per_s=values.rate, burst=values.rate_burst),
        watcher=WatcherSettings(
            interval_s=values.watch_interval,
            max_interval_s=max(values.watch_interval, values.watch_max_interval),
        ),
        effect_timeout_s=values.build_timeout,
        callback_threads=values.callback_threads,
        probe_threads=values.probe_threads,
    )


def _redis_storage(url: str | None) -> Callable[[str], Any] | None:
    if not url:
        return None
    from kiln.wrappers.circuit.redis import redis_storage

    return redis_storage(url)
