import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.build(build_key='lb-1.2', until='active')
    saved = operation.to_dict()
    operation.result()
    # In the next process, which knows nothing but what was saved.
    print(compute.recover(saved).result() == operation.result())  # True
