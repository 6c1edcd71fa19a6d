"""Fair shares of threads, queues and backends: the party that has used least comes first.

A *party* is what work is done for: the engine names clusters, and all other callers are one
party. ``turns`` decides which party is next, and ``threads`` are the threads that parties share.
"""
