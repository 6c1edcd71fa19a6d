"""The store of clusters, hooks, and the whole site, as the configuration describes them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.cluster_models import Node, NodeState
from kiln.conf.db import default_url
from kiln.conf.hooks import directory_of, file_of
from kiln.exceptions import ConfigurationError
from kiln.extras import importing
from kiln.loading import hook_entries

if TYPE_CHECKING:
    from kiln.clusters.site import Site
    from kiln.db.database import Database
    from kiln.db.store import Store
    from kiln.hooks.site import Hooks


def configured_store(conf: Any, clock: Clock = SYSTEM_CLOCK) -> Store:
    """Open the store for work; who opened it closes it.

    :raises ConfigurationError: what it needs is not installed.
    :raises StoreError: it cannot be used, or its tables are of another version.
    """
    with clusters_extra():
        # Only commands on clusters need SQLAlchemy, and it takes a while to import.
        from kiln.db.store import open_store
    options = conf.db
    return open_store(
        options.url or default_url(),
        clock=clock,
        keys=options.key_file,
        lock_timeout_s=options.lock_timeout,
    )


def configured_database(conf: Any) -> Database:
    """Open the database alone, whatever version its tables are of; as ``configured_store``."""
    with clusters_extra():
        from kiln.db.store import open_database
    options = conf.db
    return open_database(
        options.url or default_url(), clock=SYSTEM_CLOCK, lock_timeout_s=options.lock_timeout
    )


def configured_hooks(conf: Any, clock: Clock = SYSTEM_CLOCK) -> Hooks:
    """Load the hooks of the site; who has them called closes them.

    :raises InvalidHooks: something of them cannot be; every mistake is told.
    :raises ConfigurationError: what it needs is not installed.
    """
    options = conf.hooks
    with clusters_extra():
        # Hooks without a file of them need no YAML.
        from kiln.hooks.loading import load_hooks
        from kiln.hooks.site import Hooks

        found = load_hooks(
            directory=directory_of(options.directory),
            file=file_of(options.file),
            entries=hook_entries(),
        )
    return Hooks(found, max_calls=options.max_calls, clock=clock)


def clusters_extra() -> contextlib.AbstractContextManager[None]:
    """Report an import that fails, and what is to be installed for it."""
    return importing('Cannot keep clusters', ConfigurationError)


def configured_site(conf: Any, clock: Clock = SYSTEM_CLOCK) -> Site:
    """Open the site: its store, and on demand its cluster drivers and backends.

    Who opened it closes it. As ``configured_store``.
    """
    store = configured_store(conf, clock)
    # Who only looks at the store needs neither the engine nor backends nor the drivers' YAML.
    with clusters_extra():
        from kiln.clusters.site import open_site
    from kiln.driver_manager import DriverManager

    manager = DriverManager(conf)
    try:
        return open_site(
            store,
            conf.clusters,
            name=conf.compute.owner,
            open_backend=functools.partial(manager.open, clock=clock),
            default_backend=manager.default_backend,
            open_hooks=functools.partial(configured_hooks, conf, clock),
            clock=clock,
        )
    # Whatever it was, nobody else will close it.
    except BaseException:
        store.close()
        raise


@contextlib.contextmanager
def existing_store(conf: Any) -> Iterator[Store | None]:
    """Open the store if there is one; none is made for who only asks. As ``configured_store``."""
    url = conf.db.url or default_url()
    scheme, _, path = url.partition(':///')
    if scheme.startswith('sqlite') and not Path(path).exists():
        yield None
        return
    with contextlib.closing(configured_store(conf)) as store:
        yield store


@dataclasses.dataclass(frozen=True, slots=True)
class Belongings:
    """Ids and build keys of what clusters have in a backend, as far as is known."""

    kept: frozenset[str] = frozenset()
    #: What was given up with its cluster.
    abandoned: frozenset[str] = frozenset()


def belongings(conf: Any, backend: str) -> Belongings:
    """Return what clusters have in a backend; nothing where there is no store.

    No store is made for the question.

    :raises ConfigurationError: what the store needs is not installed.
    :raises StoreError: it cannot be used, so nobody can tell what is needed.
    """
    with existing_store(conf) as store:
        if store is None:
            return Belongings()
        from kiln.engine.acts import build_key

        kept = set(store.receipts.known(backend, 'server') | store.receipts.known(backend, 'port'))
        for cluster in store.clusters.list():
            # What a killed engine has asked for is known by its key alone.
            kept |= {
                build_key(node) for node in store.nodes.of(cluster.id) if _there(node, backend)
            }
        return Belongings(frozenset(kept), store.receipts.abandoned(backend))


def _there(node: Node, backend: str) -> bool:
    return node.backend == backend and node.state is not NodeState.GONE
