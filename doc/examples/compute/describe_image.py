import kiln

with kiln.open_compute('noop') as compute:
    print(compute.describe_image('debian-13').result().id)  # debian-13
