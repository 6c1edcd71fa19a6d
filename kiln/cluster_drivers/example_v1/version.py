"""Which driver this is; read without running it."""

version = '1.0.0'
driver = 'example_v1'
