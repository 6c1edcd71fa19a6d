"""The store: what is known of clusters, and every write of it fenced.

``kiln.db.store.open_store`` is the way in. It hands out values of
``kiln.cluster_models`` and ``kiln.cluster_spec``, never rows.
"""
