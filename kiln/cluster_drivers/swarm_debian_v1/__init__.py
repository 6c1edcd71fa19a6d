"""Docker Swarm on Debian: joins, drains and repairs managers and workers."""
