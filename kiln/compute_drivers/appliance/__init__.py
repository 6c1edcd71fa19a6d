"""The appliance driver: amphorae on enrolled machines, wiped after each use."""
