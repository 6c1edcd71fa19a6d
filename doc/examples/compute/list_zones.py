import kiln

with kiln.open_compute('noop') as compute:
    print(compute.list_zones().result())  # ['az1', 'az2', 'az3']
