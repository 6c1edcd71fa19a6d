import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(build_key='lb-1.2', until='active')
    operation.result()
    print(operation.to_dict()['build_key'])  # lb-1.2
