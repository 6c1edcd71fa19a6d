import kiln

with kiln.open_compute('noop') as compute:
    print(compute.list_resources().result())  # []
