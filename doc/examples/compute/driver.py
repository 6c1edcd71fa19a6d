import kiln

with kiln.open_compute('noop') as compute:
    print(type(compute.driver).__name__)  # NoopDriver
