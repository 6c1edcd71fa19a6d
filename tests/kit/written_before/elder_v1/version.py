"""Which driver this is; read without being run."""

version = '1.0.0'
driver = 'elder_v1'
provides = [('*', '*', 'elder')]
