"""The watcher: waiters, polls of the backend, their interval."""
