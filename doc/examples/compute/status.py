import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    status = compute.status(amphora_id).result()
    print(status.state, status.ready)  # active True
