import kiln

with kiln.open_compute('noop') as compute:
    group = compute.create_server_group('pair', 'anti-affinity').result()
    print(compute.delete_server_group(group.id).result())  # None
