import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(amphora_flavor='small', name='lb-1', until=kiln.Until.ACTIVE)
    amphora_id = operation.result()
    print(compute.get_amphora(amphora_id=amphora_id).result().flavor)  # small
