"""What keeps clusters as they are wanted to be.

Planning is pure: ``shapes`` says how many nodes go where, ``planner`` what has
to change for that, ``rollout`` what of it may be begun now, ``rounds`` who is
rebooted or rebuilt next, ``remediation`` which nodes are given up, and
``conditions`` what can be said of a cluster.

Acting is level-triggered: ``lifecycle`` says what is next for a node (pure),
``work`` takes turns with one cluster (news in, one commit, acts out), ``acts``
does them, ``outcomes`` takes in what became of them, and ``conductor`` is the
thread that holds the leases. Operations that lead elsewhere than to what is
wanted have a module each: ``resets``, ``check``, ``adoption``. Another thread,
``watch``, looks after clusters on which nobody works.
"""
