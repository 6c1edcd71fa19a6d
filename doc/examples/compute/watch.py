import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build().result()
    status = compute.watch(amphora_id, {kiln.State.ACTIVE}).result()
    print(status.state)  # active
