from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import AmphoraType
from kiln.testing.clock import VirtualClock

clock = VirtualClock()
driver = NoopDriver(cloud=NoopCloud(clock=clock, build_s=8))
amphora_id = driver.build(AmphoraType.VM)

clock.advance(7)
print(driver.status(amphora_id).state)  # building

clock.advance(1)
print(driver.status(amphora_id).state)  # active
