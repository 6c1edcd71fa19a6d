"""The driver with one resource group: pure parts, and what only it does on a played Heat."""
