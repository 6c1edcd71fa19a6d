"""Where a conductor gets clusters to work on from, and tells that there is work.

``base`` is the contract, ``database`` asks the store, and ``jobboard`` shares work
out between several conductors through a ``Board``; ``taskflow_board`` is the one of
TaskFlow, on ZooKeeper, etcd or Redis. ``opening`` makes the one that is configured.
"""
