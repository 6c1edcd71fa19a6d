import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    status = compute.latest(amphora_id)
    print(status and status.state)  # active
    print(compute.latest('one that nobody watches'))  # None
