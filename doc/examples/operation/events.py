import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(until='active')
    operation.result()
    print([event.name for event in operation.events])  # ['accepted', 'active']
