import kiln

with kiln.open_compute('noop') as compute:
    print(compute.build(build_key='lb-1.2').build_key)  # lb-1.2
