import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(name='lb-1').result()
    print(compute.get_amphora('lb-1').result().id == amphora_id)  # True
