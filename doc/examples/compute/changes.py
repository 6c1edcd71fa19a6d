import kiln

with kiln.open_compute('noop') as compute:
    # Without a cursor the answer is all there is, so far as the backend remembers.
    first = compute.changes().result()
    print(first.complete, first.statuses)  # True ()
    amphora_id = compute.build().result()
    news = compute.changes(first.cursor).result()
    print([status.amphora_id == amphora_id for status in news.statuses])  # [True]
