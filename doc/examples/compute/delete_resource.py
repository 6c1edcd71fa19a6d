import kiln

with kiln.open_compute('noop') as compute:
    # A port of this site's own that hangs on nothing any more.
    amphora_id = compute.build(network_ids=['net-1'], until='active').result()
    port = compute.list_resources().result()[0]
    compute.detach_port(amphora_id, port.id).result()
    print(compute.delete_resource(port).exception())  # None
