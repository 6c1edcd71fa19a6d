"""Work sources: where a conductor gets clusters to work on.

``base`` is the contract, ``database`` polls the store, and ``jobboard`` shares work
between several conductors through a ``Board``. ``taskflow_board`` is a board of
TaskFlow, on ZooKeeper, etcd or Redis. ``opening`` opens the configured source.
"""
