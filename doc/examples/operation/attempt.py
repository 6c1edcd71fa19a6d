import kiln

with kiln.open_compute('noop') as compute:
    print(compute.status('lb-1').attempt)  # read the status of lb-1
