import threading

import kiln

with kiln.open_compute('noop') as compute:
    told = threading.Event()
    operation = compute.check()
    operation.add_done_callback(lambda done: told.set())
    print(told.wait(30))  # True
