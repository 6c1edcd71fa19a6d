"""Driver wrappers: executor, circuit breaker, rate limit, observer, watcher."""
