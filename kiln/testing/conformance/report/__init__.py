"""Runner of the kit without a test runner, and its report."""
