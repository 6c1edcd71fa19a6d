"""Name, version and cluster types of the driver; read without being executed."""

version = '1.0.0'
driver = 'heat_group_v1'
provides = [('vm', '*', 'heat-group')]
