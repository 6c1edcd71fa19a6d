import kiln

with kiln.open_compute('noop') as compute:
    group = compute.create_server_group('pair', 'anti-affinity').result()
    compute.build(server_group_id=group.id).result()
    print(group.policy)  # anti-affinity
