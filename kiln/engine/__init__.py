"""What keeps clusters as they are wanted to be.

Planning is pure: ``shapes`` says how many nodes go where, ``planner`` what has
to change for that, ``rollout`` what of it may be begun now, ``remediation``
which nodes are given up.
"""
