import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(until='active')
    operation.cancel()
    print(operation.cancelled(), operation.state)  # True cancelled
