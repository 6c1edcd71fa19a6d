import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    compute.reboot(amphora_id, hard=True, wait=True).result()
    print(compute.status(amphora_id).result().ready)  # True
