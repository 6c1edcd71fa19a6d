"""What a fenced commit costs beside the same rows written with bare sqlite3.

    python -m tests.bench.bench_db [--commits 2000] [--intents 1000]

A commit proves the lease and writes a step, a node and an event, with every byte
on the disk. The two take turns, since a disk is not equally fast all the time.
Fails where the store takes more than 1.5 times as long, or where a thousand intents
in one commit take longer than a fifth of a second.
"""

import argparse
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time

from kiln.clusters.models import StepState
from kiln.db.store import open_store
from kiln.db.tables.rows import STEP, event_row, node_row
from tests.unit.db import samples

BOUND = 1.5
INTENTS_S = 0.2
ROUNDS = 10


def insert(table, row, more=''):
    names = ', '.join(row)
    return f'INSERT INTO {table} ({names}) VALUES ({", ".join("?" * len(row))}) {more}'


class Bare:
    """The same statements on the same tables, from prepared rows."""

    def __init__(self, path, lease):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute('PRAGMA synchronous = FULL')
        self.db.execute('PRAGMA foreign_keys = ON')
        self.proof = (lease.scope, lease.owner, lease.epoch)

    def write(self, step, node, event):
        run = self.db.execute
        step, node, event = STEP.row(step), node_row(node), event_row(event, 1.0)
        run('BEGIN IMMEDIATE')
        run('SELECT epoch FROM lease WHERE scope = ? AND owner = ? AND epoch = ?', self.proof)
        run(insert('step', step, 'ON CONFLICT (id) DO UPDATE SET state = excluded.state'),
            tuple(step.values()))  # fmt: skip
        run(insert('node', node, 'ON CONFLICT (id) DO UPDATE SET state = excluded.state'),
            tuple(node.values()))  # fmt: skip
        run("UPDATE counter SET last = last + 1 WHERE name = 'event'")
        (seq,) = run("SELECT last FROM counter WHERE name = 'event'").fetchone()
        run(insert('event', event | {'seq': seq}), (*event.values(), seq))
        run('COMMIT')


def write(store, lease, step, node, event):
    with store.writing(lease) as batch:
        batch.step(step)
        batch.node(node)
        batch.event(event)


def per_commit_s(work, name, count):
    started = time.perf_counter()
    for i in range(count):
        key = f'{name}-{i}'
        step = samples.step(key, 'op-web', state=StepState.DONE)
        work(step, samples.node(key), samples.event(key))
    return (time.perf_counter() - started) / count


def intents_s(store, lease, count):
    steps = [samples.step(f'intent-{i}', 'op-web') for i in range(count)]
    started = time.perf_counter()
    with store.writing(lease) as batch:
        for step in steps:
            batch.step(step)
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--commits', type=int, default=2000)
    parser.add_argument('--intents', type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'kiln.db')
        with open_store(f'sqlite:///{path}') as store:
            store.clusters.create(samples.cluster(), samples.operation('op-web'))
            lease = store.leases.claim('c-web', 'bench', 3600)
            bare = Bare(path, lease)
            each = options.commits // ROUNDS
            times = {'bare': [], 'store': []}
            for turn in range(ROUNDS):
                times['bare'].append(per_commit_s(bare.write, f'b{turn}', each))
                times['store'].append(
                    per_commit_s(lambda *it: write(store, lease, *it), f's{turn}', each)
                )
            bare.db.close()
            # The first time, statements are still being made.
            intents = min(intents_s(store, lease, options.intents) for _ in range(3))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = statistics.median(
        mine / theirs for mine, theirs in zip(times['store'], times['bare'], strict=True)
    )
    for name, seconds in medians.items():
        print(f'{name:6}{seconds * 1e6:8.0f} us a commit{1 / seconds:8.0f} commits a second')
    print(f'ratio {ratio:8.2f} (at most {BOUND})')
    print(f'{options.intents} intents in one commit: {intents * 1e3:.1f} ms')
    return 1 if ratio > BOUND or intents > INTENTS_S * options.intents / 1000 else 0


if __name__ == '__main__':
    sys.exit(main())
