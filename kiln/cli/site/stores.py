"""Store, database, hooks and site, opened as configured."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.conf import compute as compute_conf
from kiln.conf import register
from kiln.conf import secrets as secrets_conf
from kiln.conf.db import default_url
from kiln.conf.hooks import directory_of, file_of
from kiln.exceptions import ConfigurationError
from kiln.plugins.entry_points import entry_points
from kiln.plugins.extras import importing
from kiln.telemetry import cluster_export, operation_count

if TYPE_CHECKING:
    from kiln.cluster_service.site import Site
    from kiln.compute.backends import DriverManager
    from kiln.compute.facade import Compute
    from kiln.db.database import Database
    from kiln.db.store import Store
    from kiln.hooks.registry import Hooks
    from kiln.telemetry.events import Listener

LOG = logging.getLogger(__name__)


def configured_store(
    conf: Any, clock: Clock = SYSTEM_CLOCK, report: Callable[[str], None] = LOG.warning
) -> Store:
    """Open the store; the caller closes it. ``report`` is told if its server is silent.

    :raises ConfigurationError: a package that it needs is not installed.
    :raises StoreError: the store cannot be used, or its tables have another revision.
    """
    with clusters_extra():
        # Only commands on clusters need SQLAlchemy, and it takes a while to import.
        from kiln.db.store import open_store
    url, wait_s = _url(conf), conf.db.lock_timeout
    return open_store(
        url, clock=clock, keys=conf.db.key_file, lock_timeout_s=wait_s, report=report
    )


def configured_database(conf: Any, report: Callable[[str], None] = LOG.warning) -> Database:
    """Open the database, whatever its revision; otherwise like ``configured_store``."""
    with clusters_extra():
        from kiln.db.store import open_database
    url, wait_s = _url(conf), conf.db.lock_timeout
    return open_database(url, clock=SYSTEM_CLOCK, lock_timeout_s=wait_s, report=report)


def _url(conf: Any) -> str:
    """Return the URL of the store; the folder of a configured file must exist."""
    url: str | None = conf.db.url
    scheme, _, path = (url or '').partition(':///')
    # A mistyped folder would be a store of its own, without clusters.
    if scheme.startswith('sqlite') and path and not Path(path).parent.is_dir():
        raise ConfigurationError(
            f'Cannot open the store {path}: there is no folder {Path(path).parent}. Create it, or '
            f'correct [db] url.'
        )
    return url or default_url()


def configured_hooks(conf: Any, clock: Clock = SYSTEM_CLOCK) -> Hooks:
    """Load the hooks of the site; a caller that calls hooks closes them.

    :raises InvalidHooks: hooks are wrong; every mistake is listed.
    :raises ConfigurationError: a package that they need is not installed.
    """
    options = conf.hooks
    with clusters_extra():
        # Without a file of hooks, no YAML is needed.
        from kiln.hooks.loading import load_hooks
        from kiln.hooks.registry import Hooks

        found = load_hooks(
            directory=directory_of(options.directory),
            file=file_of(options.file),
            entries=entry_points('kiln.hooks'),
            user=options.user,
        )
    return Hooks(
        found, max_calls=options.max_calls, max_disk_mib=options.max_disk_mib, clock=clock
    )


def clusters_extra() -> contextlib.AbstractContextManager[None]:
    """Report a failed import with the extra to install."""
    return importing('Cannot keep clusters', ConfigurationError)


def configured_site(
    conf: Any,
    clock: Clock = SYSTEM_CLOCK,
    *,
    listeners: Iterable[Listener] = (),
    report: Callable[[str], None] = LOG.warning,
) -> Site:
    """Open the site: its store, and on demand its cluster drivers and backends.

    ``listeners`` receive the events of the backends, and ``report`` a sentence for each
    unknown option of a backend, and if the server of the store is silent.

    The caller closes it. Raises the errors of ``configured_store``.
    """
    store = configured_store(conf, clock, report)
    # Callers of the store alone need neither the engine nor backends nor YAML.
    with clusters_extra():
        from kiln.cluster_service.site import open_site
    from kiln.cluster_drivers.secrets import given_secrets, open_secrets

    site = register(conf, compute_conf.GROUP, compute_conf.SITE_OPTS)
    try:
        secrets = None if conf.secrets.directory else given_secrets()
        return open_site(
            store,
            conf.clusters,
            name=site.owner,
            open_backend=_Opening(conf, clock, tuple(listeners), report).open,
            default_backend=site.default_backend,
            open_hooks=functools.partial(configured_hooks, conf, clock),
            clock=clock,
            secrets=secrets or open_secrets(secrets_conf.directory_of(conf.secrets.directory)),
            credentials=conf.secrets.credentials,
            export_readings=cluster_export() if conf.compute.metrics else None,
            count_operation=_operation_count() if _counts(conf) else None,
        )
    # Nothing else would close the store.
    except BaseException:
        store.close()
        raise


class _Opening:
    """Opens backends; the wrappers around drivers are imported with the first one."""

    def __init__(
        self,
        conf: Any,
        clock: Clock,
        listeners: tuple[Listener, ...],
        report: Callable[[str], None],
    ) -> None:
        self._conf, self._clock = conf, clock
        self._listeners, self._report = listeners, report
        self._manager: DriverManager | None = None

    def open(self, name: str) -> Compute:
        """Return a backend; the caller lets in one thread at a time."""
        from kiln.compute.backends import DriverManager

        if self._manager is None:
            self._manager = DriverManager(self._conf, report=self._report)
        return self._manager.open(name, clock=self._clock, listeners=self._listeners)


def _counts(conf: Any) -> bool:
    return bool(conf.compute.metrics or conf.clusters.metrics_listen)


def _operation_count() -> Callable[[str, str, float], None]:
    outcomes = [state for state in OperationState if state.ended]
    return operation_count(map(str, OperationKind), map(str, outcomes))


@contextlib.contextmanager
def existing_store(conf: Any) -> Iterator[Store | None]:
    """Open the store if it exists, without creating it; like ``configured_store``."""
    url = conf.db.url or default_url()
    scheme, _, path = url.partition(':///')
    if scheme.startswith('sqlite') and not Path(path).exists():
        yield None
        return
    with contextlib.closing(configured_store(conf)) as store:
        yield store


def belongings(conf: Any, backend: str) -> dict[str, frozenset[str]]:
    """Return what clusters keep and have abandoned in a backend, for ``Rules``.

    Does not create a store; without one, nothing belongs to clusters.

    :raises ConfigurationError: a package that the store needs is not installed.
    :raises StoreError: the store cannot be used, so needed resources are unknown.
    """
    with existing_store(conf) as store:
        if store is None:
            return {}
        from kiln.engine.plan.names import build_key

        kept = set(store.receipts.known(backend, 'server') | store.receipts.known(backend, 'port'))
        for cluster in store.clusters.list():
            # A machine that a killed engine requested is known only by its key.
            kept |= {
                build_key(node)
                for node in store.nodes.of(cluster.id)
                if node.backend == backend and node.state is not NodeState.GONE
            }
        return {'kept': frozenset(kept), 'abandoned': store.receipts.abandoned(backend)}
