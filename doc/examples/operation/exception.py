import kiln

with kiln.open_compute('noop') as compute:
    print(compute.check().exception())  # None
    print(type(compute.status('nothing').exception()).__name__)  # InstanceNotFoundError
