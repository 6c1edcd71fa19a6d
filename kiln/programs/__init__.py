"""Programs of others: run without kiln's environment, files and terminal, and ended whole."""
