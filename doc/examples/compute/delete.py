import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build().result()
    compute.delete(amphora_id, wait=True).result()
    print(compute.list_amphorae().result())  # ()
