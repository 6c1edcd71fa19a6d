import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    attachment = compute.attach_network(amphora_id, 'net-1').result()
    print(attachment.network_id)  # net-1
