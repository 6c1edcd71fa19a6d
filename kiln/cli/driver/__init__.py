"""Commands on drivers: list, show, check, test, new; the scaffold of a driver."""
