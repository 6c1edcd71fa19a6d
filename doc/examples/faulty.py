from kiln.compute.facade import Compute
from kiln.compute_drivers.calls import Call
from kiln.exceptions import QuotaExceeded
from kiln.testing.faulty import FailingDriver
from kiln.testing.minimal import MinimalDriver

sound = MinimalDriver()
amphora_id = sound.build('vm')

full = FailingDriver(sound, lambda call: QuotaExceeded('none is left'), calls={Call.BUILD})
with Compute(full) as compute:
    operation = compute.build('vm')
    print(type(operation.exception()).__name__)  # QuotaExceeded

    compute.delete(amphora_id).result()
    print(list(sound.list_amphorae()))  # []
