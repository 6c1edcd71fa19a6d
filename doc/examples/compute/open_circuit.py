import kiln

with kiln.open_compute('noop') as compute:
    compute.open_circuit('build')
    try:
        compute.build()
    except kiln.exceptions.CircuitOpenError as error:
        print(error.code)  # circuit_open
