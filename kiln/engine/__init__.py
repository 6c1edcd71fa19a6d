"""The cluster engine: brings clusters to their desired state and keeps them there.

Planning is pure: ``shapes`` counts the nodes of each place, ``planner`` computes the
changes, ``rollout`` selects the changes that can begin now, ``rounds`` the nodes to
reboot or rebuild next, ``remediation`` the nodes to give up, and ``conditions`` derives
the conditions of a cluster.

Execution is level-triggered: ``lifecycle`` returns the next action of a node (pure),
``work`` runs the rounds of one cluster (take in results, write one commit, start
actions), ``acts`` runs the actions, ``outcomes`` applies their results, and
``conductor`` is the thread that holds the leases. Operations that do not follow the
plan have a module each: ``resets``, ``check``, ``adoption``. Another thread, ``watch``,
polls the clusters that have no operation under way.
"""
