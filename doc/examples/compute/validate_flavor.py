import kiln

with kiln.open_compute('noop') as compute:
    print(compute.validate_flavor('small').result())  # None
    print(type(compute.validate_flavor('odd').exception()).__name__)  # InvalidRequest
