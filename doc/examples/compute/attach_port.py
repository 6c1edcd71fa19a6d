import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    attachment = compute.attach_port(amphora_id, 'port-1').result()
    print(attachment.port_id)  # port-1
