import kiln

with kiln.open_compute('noop') as compute:
    print(compute.check_ports(['web'], ['22/tcp', '53/udp']).result())  # None
