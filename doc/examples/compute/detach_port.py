import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(port_ids=['port-1'], until='active').result()
    print(compute.detach_port(amphora_id, 'port-1').result())  # None
