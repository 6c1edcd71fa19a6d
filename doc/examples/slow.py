from kiln.compute.facade import Compute
from kiln.compute_drivers.calls import Call
from kiln.testing.faulty import SlowDriver
from kiln.testing.minimal import MinimalDriver

# Each build takes a second of the driver's clock, which is the real one here.
slow = SlowDriver(MinimalDriver(), 1.0, calls={Call.BUILD})
with Compute(slow) as compute:
    operation = compute.build('vm')
    try:
        operation.result(0.1)
    except TimeoutError:
        print(operation.done())  # False

    print(compute.status(operation.result()).result().state)  # active
