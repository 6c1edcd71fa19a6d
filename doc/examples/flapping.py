from kiln.compute.facade import Compute
from kiln.compute_drivers.calls import Call
from kiln.testing.faulty import FlappingDriver
from kiln.testing.minimal import MinimalDriver

# Two reads in three fail. A read is safe to repeat, so kiln repeats it.
flapping = FlappingDriver(MinimalDriver(), fails=2, serves=1, calls={Call.LIST})
with Compute(flapping) as compute:
    operation = compute.list_amphorae()
    print(list(operation.result()))  # []
    print(sum(event.name == 'waits' for event in operation.events))  # 2
