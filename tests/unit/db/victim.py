"""A process that works on a cluster and prints what it wrote, until it is stopped.

    python -m tests.unit.db.victim URL OWNER COUNT [asking]

It prints ``has EPOCH`` when it has the lease, ``wrote N`` after each commit, and ``lost``
when it was refused. With ``asking`` it waits for a line before each commit.
"""

import sys

from kiln.clusters.exceptions import LeaseLost
from kiln.clusters.models import StepState
from kiln.db.store import open_store
from tests.unit.db import samples


def say(*words):
    print(*words, flush=True)


def main(url, owner, count, asking=''):
    store = open_store(url)
    lease = store.leases.claim('c-web', owner, 0.5)
    say('has', lease.epoch if lease else 'nothing')
    try:
        for number in range(int(count)):
            if asking:
                sys.stdin.readline()
            with store.writing(lease) as batch:
                batch.step(samples.step(f'{owner}-{number}', 'op-web', state=StepState.DONE))
                batch.node(samples.node(f'{owner}-{number}'))
                batch.event(samples.event(f'{owner} {number}'))
            say('wrote', number)
    except LeaseLost:
        say('lost')


if __name__ == '__main__':
    main(*sys.argv[1:])
