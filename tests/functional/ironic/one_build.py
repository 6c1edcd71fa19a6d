"""A process that builds one amphora, to be killed: options, owner, key and more as JSON."""

import json
import sys

from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.models import AmphoraType
from tests.functional.ironic.site import options_of


def main():
    given = json.load(sys.stdin)
    driver = IronicDriver.open(options_of(given['options']), name='ironic', owner=given['owner'])
    print(
        driver.build(
            AmphoraType.BARE_METAL,
            build_key=given['key'],
            name=given['key'],
            user_data='#!/bin/sh\n',
            **given['arguments'],
        )
    )


if __name__ == '__main__':
    main()
