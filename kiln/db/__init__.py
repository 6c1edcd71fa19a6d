"""Store of cluster state, with fenced writes.

``kiln.db.store.open_store`` opens it. Its methods return values of
``kiln.cluster_models`` and ``kiln.cluster_spec``, never rows.
"""
