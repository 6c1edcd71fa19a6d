import kiln

with kiln.open_compute('noop') as compute:
    print(type(compute.validate_zone('az9').exception()).__name__)  # InvalidRequest
