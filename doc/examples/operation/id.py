import kiln

with kiln.open_compute('noop') as compute:
    print(len(compute.check().id))  # 32
