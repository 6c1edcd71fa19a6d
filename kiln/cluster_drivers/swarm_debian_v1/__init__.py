"""Docker Swarm on Debian: managers and workers, joined and kept in order over their engines."""
