"""The circuit breaker of a backend, for one process or shared."""
