import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(until='active')
    print(operation.cancel('somebody thought better of it'))  # True
    print(type(operation.exception()).__name__)  # OperationCancelled
