"""The cluster engine: brings clusters to their desired state and keeps them there.

``plan`` decides and is pure: ``diff`` computes the changes, ``rollout`` and
``reset_rounds`` select the changes that can begin now, ``repair`` the nodes to give up,
and ``lifecycle`` the next action of a node.

Execution is level-triggered: ``cluster`` runs the rounds of one cluster (take in results,
write one commit, start actions) and has a class for each kind of operation, ``nodes`` has
the actions and what a round shares, and ``conductor`` is the thread that holds the leases.
Another thread, ``health.standing_check``, polls the clusters that
have no operation under way.
"""
