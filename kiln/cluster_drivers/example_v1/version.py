"""Which driver this is; read without being run."""

version = '1.0.0'
driver = 'example_v1'
provides = [('*', '*', 'example')]
