import kiln

with kiln.open_compute('noop') as compute:
    # A driver like any other, whose calls block and pass all guards.
    amphora_id = compute.guarded.build(kiln.AmphoraType.VM)
    print(compute.guarded.status(amphora_id).amphora_id == amphora_id)  # True
