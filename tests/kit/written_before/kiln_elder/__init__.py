"""A kiln compute driver that builds virtual machines on Elder."""
