"""Drivers around drivers: executor, circuit breaker, rate limit, observer, watcher."""
