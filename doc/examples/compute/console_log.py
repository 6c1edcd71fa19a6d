import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    print(len(compute.console_log(amphora_id, lines=1).result().splitlines()))  # 1
