import kiln

with kiln.open_compute('noop') as compute:
    print(len(compute.circuits()))  # 3
    for circuit in compute.circuits():
        assert circuit.name in ('noop/read', 'noop/build', 'noop/change')
