from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver

cloud = NoopCloud()
made_by_hand = cloud.make_unowned('lb-1')
with Compute(NoopDriver(cloud=cloud)) as compute:
    compute.claim(made_by_hand, build_key='lb-1').result()
    print([amphora.name for amphora in compute.list_amphorae().result()])  # ['lb-1']
