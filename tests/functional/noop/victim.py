"""A process that builds on a shared cloud until it is killed.

    python -m tests.functional.noop.victim FILE PREFIX [COUNT]

It writes a line before each build, and another after the build was acknowledged.
"""

import sys

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver


def main(path, prefix, count='1000000000'):
    driver = NoopDriver(cloud=NoopCloud(path, build_s=0.02, delete_s=0.02))
    for i in range(int(count)):
        key = f'{prefix}-{i}'
        print('asks', key, flush=True)
        amphora_id = driver.build(build_key=key, port_ids=[f'port-{key}'], network_ids=['n'])
        print('has', key, amphora_id, flush=True)
        if i % 3 == 0:
            print('drops', key, flush=True)
            driver.delete(amphora_id)


if __name__ == '__main__':
    main(*sys.argv[1:])
