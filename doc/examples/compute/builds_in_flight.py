import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(until='active')
    print(compute.builds_in_flight)  # 1
    operation.result()
    print(compute.builds_in_flight)  # 0
