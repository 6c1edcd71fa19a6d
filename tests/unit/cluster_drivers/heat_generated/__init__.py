"""The driver with a generated template: pure parts."""
