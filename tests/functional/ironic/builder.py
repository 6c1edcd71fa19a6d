"""A process that builds amphorae by their keys, and deletes some; it can be killed at any time."""

import sys

from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.exceptions import AmphoraComputeError
from tests.functional.cloud import shared_cloud
from tests.functional.ironic.site import CLASS, IMAGE, PROPERTY, IronicCase, options_of


def main(owner, wanted, unwanted):
    """Build all keys that are wanted, delete all others, and say so."""
    case = IronicCase()
    cloud = shared_cloud()
    url = cloud.session(case.who).get_endpoint(service_type='baremetal', interface='public')
    options = options_of(
        {
            **cloud.auth(case.who), 'baremetal_endpoint_override': url, 'flavor': CLASS,
            'image': IMAGE, 'zone_property': PROPERTY, 'timeout': 60.0,
        }
    )  # fmt: skip
    driver = IronicDriver.open(options, name='ironic', owner=owner)
    print('open', flush=True)
    left = [*wanted, *unwanted]
    while left:
        key = left.pop(0)
        try:
            if key in wanted:
                driver.build('bare_metal', name=key, build_key=key)
                continue
            for found in driver.list_amphorae():
                if found.build_key == key:
                    driver.delete(found.id)
        except AmphoraComputeError as exc:
            if not exc.retryable:
                raise
            left.append(key)
    print('done', flush=True)
    # Until it is killed, or its input ends; deletes that wait go on.
    sys.stdin.read()


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2].split(','), sys.argv[3].split(','))
