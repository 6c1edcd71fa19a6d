import kiln

with kiln.open_compute('noop') as compute:
    print(compute.validate_image('debian-13').result())  # None
