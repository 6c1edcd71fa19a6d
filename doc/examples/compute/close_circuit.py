import kiln

with kiln.open_compute('noop') as compute:
    compute.open_circuit('build')
    compute.close_circuit('build')
    print(compute.build().exception())  # None
