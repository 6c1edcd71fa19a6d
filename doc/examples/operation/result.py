import kiln

with kiln.open_compute('noop') as compute:
    operation = compute.get_amphora('nobody')
    try:
        operation.result(timeout=30)
    except kiln.exceptions.InstanceNotFoundError as error:
        print(error.code)  # instance_not_found
