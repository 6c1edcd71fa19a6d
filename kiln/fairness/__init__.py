"""Fair shares: whoever uses a thread, a queue or a backend much lets others go first.

A *party* is whom work is done for: the engine names clusters, other callers are one party.
``turns`` decides who comes next, and ``threads`` are the threads that parties share.
"""
