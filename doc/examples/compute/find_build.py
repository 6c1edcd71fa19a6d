import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(build_key='lb-1.2').result()
    found = compute.find_build('lb-1.2').result()
    print(found is not None and found.id == amphora_id)  # True
    print(compute.find_build('lb-1.3').result())  # None
