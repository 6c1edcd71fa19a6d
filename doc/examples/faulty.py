from kiln.compute import Compute
from kiln.compute_drivers.calls import Call
from kiln.exceptions import ServiceUnavailable
from kiln.testing.faulty import FailingDriver
from kiln.testing.minimal import MinimalDriver

sound = MinimalDriver()
amphora_id = sound.build('vm')

broken = FailingDriver(sound, calls={Call.BUILD})
with Compute(broken) as compute:
    operation = compute.build('vm', timeout=2)
    print(type(operation.exception()) is ServiceUnavailable)  # True

    compute.delete(amphora_id).result()
    print(list(sound.list_amphorae()))  # []
