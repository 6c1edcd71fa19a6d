import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    compute.suspend(amphora_id, wait=True).result()
    compute.resume(amphora_id, wait=True).result()
    print(compute.status(amphora_id).result().state)  # active
