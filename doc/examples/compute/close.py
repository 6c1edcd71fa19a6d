import kiln

compute = kiln.open_compute('noop')
operation = compute.build(until='active')
compute.close()
print(type(operation.exception()).__name__)  # OperationCancelled
