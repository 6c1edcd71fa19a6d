import os

import kiln

# The answer to the first build gets lost on its way, and the second machine fails.
os.environ['KILN_COMPUTE_NOOP__FAULTS'] = (
    'build:lose_answer:times=1; build:error=The disk is broken.:times=1'
)

with kiln.open_compute('noop') as compute:
    build = compute.build(name='lb-1', until='active')
    print(compute.status(build.result()).result().state)  # active

    try:
        compute.build(name='lb-2', until='active').result()
    except kiln.exceptions.AmphoraComputeError as error:
        print(type(error).__name__, error.advice)  # BuildFailed build_anew

    print(len(compute.list_amphorae().result()))  # 1
