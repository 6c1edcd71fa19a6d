import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(network_ids=['net-1'], until='active').result()
    compute.detach_network(amphora_id, 'net-1').result()
    print(compute.get_amphora(amphora_id=amphora_id).result().addresses)  # ()
