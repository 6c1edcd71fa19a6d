"""Compute facades that all Octavia drivers of a process share, one per backend."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Any

from kiln import conf as kiln_conf
from kiln.adapters.octavia import settings
from kiln.adapters.octavia.conf import GROUP, opts
from kiln.compute.backends import DriverManager
from kiln.compute.facade import Compute
from kiln.conf import compute as compute_conf
from kiln.exceptions import ConfigurationError

LOG = logging.getLogger(__name__)

#: Seconds that the end of a process can wait for operations in progress.
CLOSE_S = 1.0
#: Distinguishes Octavia's amphorae from the machines of another kiln on the same cloud.
OWNER = 'octavia'
#: By default, Octavia waits five minutes for an amphora, and it has few threads, so calls
#: must not outlast a long outage.
#: It waits for few amphorae at a time, so a poll serves few callers, and polling each
#: second would cost more than it gains.
DEFAULTS = {
    'call_timeout': 120.0,
    'watch_interval': 2.0,
    'watch_max_interval': 5.0,
}


class SharedComputes:
    """The open facades by backend, each opened on first use; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str | None, Compute] = {}
        self._keeps_builds = False

    def get(self, backend: str | None, conf: Any) -> Compute:
        """Return the facade of a backend; None means the one that [kiln] backend names.

        :raises ConfigurationError: the configured backend cannot be opened.
        """
        compute = self._open.get(backend)
        if compute is None:
            with self._lock:
                compute = self._open.get(backend)
                if compute is None:
                    compute = self._open[backend] = open_backend(backend, conf)
                    # Without a jobboard, no worker of Octavia would resume a build.
                    jobboard = 'task_flow' in conf and conf.task_flow.jobboard_enabled
                    self._keeps_builds = bool(jobboard)
        return compute

    def close(self) -> None:
        """Close all facades; keep builds if another worker continues their flows."""
        with self._lock:
            computes, self._open = list(self._open.values()), {}
        for compute in computes:
            compute.close(CLOSE_S, keep_builds=self._keeps_builds)

    def forget(self) -> None:
        """Start without facades, as a process must after a fork.

        The threads and connections stayed with the parent, and so did the thread
        that might have held the lock.
        """
        self._lock = threading.Lock()
        self._open = {}


def open_backend(backend: str | None, conf: Any) -> Compute:
    """Open a backend as configured in octavia.conf."""
    own = kiln_conf.register(conf, GROUP, opts)
    kiln_conf.register(conf, compute_conf.GROUP, compute_conf.SITE_OPTS, {'owner': OWNER})
    name = backend or own.backend
    if name is None:
        raise ConfigurationError(
            'Cannot choose a backend: set [kiln] backend to the NAME of a '
            '[compute:NAME] group, or compute_driver to kiln_nova.'
        )
    group = f'{compute_conf.GROUP}:{name}'
    kiln_conf.register(conf, group, compute_conf.BACKEND_OPTS, DEFAULTS)
    return DriverManager(conf).open(name, defaults=_defaults(backend, conf))


def _defaults(backend: str | None, conf: Any) -> dict[str, Any]:
    """Return the defaults that Octavia's own options give to its nova and noop backends.

    Any other backend must be configured completely, so that Octavia's password is
    not sent to another service.
    """
    match backend:
        case 'nova':
            for option in settings.unused(conf):
                LOG.warning('%s is set, but kiln does not use it', option)
            return settings.nova_defaults(conf, settings.declare_auth(conf))
        case 'noop':
            return settings.noop_defaults()
        case _:
            return {}


SHARED = SharedComputes()
os.register_at_fork(after_in_child=SHARED.forget)
atexit.register(SHARED.close)
