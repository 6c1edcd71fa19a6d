import kiln

with kiln.open_compute('noop') as compute:
    print(compute.check().result().healthy)  # True
