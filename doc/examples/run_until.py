from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import AmphoraType
from kiln.testing.clock import VirtualClock

clock = VirtualClock()
with Compute(NoopDriver(cloud=NoopCloud(clock=clock, build_s=300))) as compute:
    operation = compute.build(AmphoraType.VM, until='active')
    # The threads of the stack wait for the clock, which moves until the build is done.
    clock.run_until(operation.done)
    print(operation.exception())  # None
    print(clock.monotonic() >= 300)  # True
