"""Commands on amphorae, circuits and machine pools."""
