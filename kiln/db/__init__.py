"""Store of cluster state, with fenced writes.

``kiln.db.store.open_store`` opens it. Its methods return values of
``kiln.clusters.models`` and ``kiln.clusters.spec``, never rows.
"""
