"""One facade for each backend and process, however many drivers Octavia makes."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Any

from kiln import conf as kiln_conf
from kiln.adapters.octavia import settings
from kiln.adapters.octavia.conf import GROUP, opts
from kiln.compute import Compute
from kiln.conf import compute as compute_conf
from kiln.driver_manager import DriverManager
from kiln.exceptions import ConfigurationError

LOG = logging.getLogger(__name__)

#: Seconds that the end of a process may wait for what is under way.
CLOSE_S = 1.0
#: Octavia's amphorae are not to be taken for those of a kiln beside it.
OWNER = 'octavia'
#: Octavia waits five minutes for an amphora unless it is told otherwise, and has
#: few threads: the end of an outage must be noticed soon, and calls that live
#: through one must end. It watches only what it waits for, few at a time, so that
#: a look serves few, and one each second would cost more than it gains.
DEFAULTS = {
    'call_timeout': 120.0,
    'circuit_open': 5.0,
    'circuit_open_max': 30.0,
    'watch_interval': 2.0,
    'watch_max_interval': 5.0,
}


class SharedComputes:
    """Opens each backend when it is first asked for; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str | None, Compute] = {}
        self._keeps_builds = False

    def get(self, backend: str | None, conf: Any) -> Compute:
        """Return the backend, or the one that [kiln] backend names.

        :raises ConfigurationError: it cannot be opened as it is configured.
        """
        compute = self._open.get(backend)
        if compute is None:
            with self._lock:
                compute = self._open.get(backend)
                if compute is None:
                    compute = self._open[backend] = open_backend(backend, conf)
                    self._keeps_builds = _resumes_flows(conf)
        return compute

    def close(self) -> None:
        """Close what is open; builds stay where another worker goes on with their flows."""
        with self._lock:
            computes, self._open = list(self._open.values()), {}
        for compute in computes:
            compute.close(CLOSE_S, keep_builds=self._keeps_builds)

    def forget(self) -> None:
        """Start anew, as a process has to after a fork.

        The threads and connections stayed with the parent, and so may have
        whoever held the lock.
        """
        self._lock = threading.Lock()
        self._open = {}


def open_backend(backend: str | None, conf: Any) -> Compute:
    """Open a backend as octavia.conf describes it."""
    own = kiln_conf.register(conf, GROUP, opts)
    kiln_conf.register(conf, compute_conf.GROUP, compute_conf.SITE_OPTS, {'owner': OWNER})
    name = backend or own.backend
    if name is None:
        raise ConfigurationError(
            'Cannot tell which backend to use: set [kiln] backend to the NAME of a '
            '[compute:NAME] group, or compute_driver to kiln_nova.'
        )
    group = f'{compute_conf.GROUP}:{name}'
    kiln_conf.register(conf, group, compute_conf.BACKEND_OPTS, DEFAULTS)
    return DriverManager(conf).open(name, defaults=_defaults(backend, conf))


def _resumes_flows(conf: Any) -> bool:
    """Tell whether Octavia has a jobboard; without one nobody would ask for a build again."""
    return 'task_flow' in conf and bool(conf.task_flow.jobboard_enabled)


def _defaults(backend: str | None, conf: Any) -> dict[str, Any]:
    """Return what Octavia's own options say of the backends it has a driver for.

    Whoever uses another describes it whole, so that no password goes to where
    it should not.
    """
    match backend:
        case 'nova':
            for option in settings.unused(conf):
                LOG.warning('%s is set, and kiln does not use it', option)
            return settings.nova_defaults(conf, settings.declare_auth(conf))
        case 'noop':
            return settings.noop_defaults()
        case _:
            return {}


SHARED = SharedComputes()
os.register_at_fork(after_in_child=SHARED.forget)
atexit.register(SHARED.close)
