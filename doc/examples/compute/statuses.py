import kiln

with kiln.open_compute('noop') as compute:
    amphora_id = compute.build(until='active').result()
    statuses = compute.statuses([amphora_id, 'gone']).result()
    print(statuses[amphora_id].state, 'gone' in statuses)  # active False
