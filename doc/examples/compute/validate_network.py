import kiln

with kiln.open_compute('noop') as compute:
    print(compute.validate_network('noop-net').result())  # None
