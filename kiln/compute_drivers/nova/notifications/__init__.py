"""Nova's notifications: the message bus, the cache, the driver that listens."""
