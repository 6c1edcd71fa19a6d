"""What kiln adds to building containers.

    python -m tests.bench.bench_docker [--nodes 30] [--rounds 3]

Builds nodes of the plain image through all of kiln, until they are active, and by a
bare loop over the docker SDK with as many threads, in turns on one real engine, and
deletes them again. Prints seconds, the best of each, and the ratio; fails where kiln
takes more than 1.5 times as long.
"""

import argparse
import concurrent.futures
import sys
import time
import uuid

import docker

from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.docker.driver import DockerDriver
from tests.functional.docker.site import PLAIN, options_of, plain_image
from tests.functional.engines import engine

BOUND = 1.5
THREADS = 8
WAIT_S = 300


def with_kiln(url, nodes):
    """Return the seconds that kiln takes to have nodes active, and then gone."""
    owner = f'bench-{uuid.uuid4().hex[:8]}'
    options = options_of(url=url, image=PLAIN, build_workers=THREADS, change_workers=THREADS)
    driver = DockerDriver.open(options, name='docker', owner=owner)
    compute = Compute(driver, settings=stack_settings(options))
    try:
        started = time.monotonic()
        built = [
            compute.build('container', name=f'{owner}-{number}', until=Until.ACTIVE)
            for number in range(nodes)
        ]
        ids = [operation.result(WAIT_S) for operation in built]
        up = time.monotonic()
        for operation in [compute.delete(amphora_id) for amphora_id in ids]:
            operation.result(WAIT_S)
        return up - started, time.monotonic() - up
    finally:
        compute.close(5)


def bare(url, nodes):
    """Return the seconds that the SDK alone takes."""
    client = docker.DockerClient(base_url=url, max_pool_size=THREADS)

    def run(number):
        made = client.containers.run(PLAIN, name=f'bare-{uuid.uuid4().hex}', detach=True)
        made.reload()
        assert made.status == 'running', number
        return made

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        started = time.monotonic()
        made = list(pool.map(run, range(nodes)))
        up = time.monotonic()
        list(pool.map(lambda one: one.remove(force=True, v=True), made))
        ended = time.monotonic()
    client.close()
    return up - started, ended - up


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--nodes', type=int, default=30)
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    url = engine('docker').url
    plain_image(url)
    ways = {'kiln': with_kiln, 'bare SDK': bare}
    times = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            times[name].append(way(url, options.nodes))
    best = {
        name: [min(one) for one in zip(*rounds, strict=True)] for name, rounds in times.items()
    }
    for name, (up, gone) in best.items():
        print(f'{name:10} {options.nodes} nodes: up {up:6.2f} s, gone {gone:6.2f} s')
    ratios = [ours / theirs for ours, theirs in zip(best['kiln'], best['bare SDK'], strict=True)]
    print('ratio      up {:.2f}, gone {:.2f} (bound {})'.format(*ratios, BOUND))
    return int(ratios[0] > BOUND)


if __name__ == '__main__':
    sys.exit(main())
