import kiln

with kiln.open_compute('noop') as compute:
    print(compute.validate_security_group('web').result())  # None
