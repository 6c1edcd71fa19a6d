import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.check()
    operation.result()
    print(operation.running())  # False
