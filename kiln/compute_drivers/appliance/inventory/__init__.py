"""The inventory of machines: values, file, reading."""
