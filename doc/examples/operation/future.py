import concurrent.futures

import kiln

with kiln.open_compute('noop') as compute:
    futures = [compute.build(until='active').future() for _ in range(3)]
    done, waiting = concurrent.futures.wait(futures, timeout=60)
    print(len(done), len(waiting))  # 3 0
