import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(image_id='debian-12', until='active').result()
    compute.rebuild(amphora_id, image_id='debian-13', wait=True).result()
    print(compute.get_amphora(amphora_id=amphora_id).result().image_id)  # debian-13
