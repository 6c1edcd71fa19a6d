"""Name, version and cluster types of the driver; read without being executed."""

version = '1.0.0'
driver = 'stack_v1'
provides = [('*', '*', 'stack')]
