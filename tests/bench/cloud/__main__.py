"""What kiln costs on a real OpenStack, beside Octavia's own driver and a bare loop.

    python -m tests.bench.cloud [--servers 20 50] [--small]

Each contender takes the same servers to ACTIVE and deletes them, in a process of its
own, in alternated order, on a Nova that tells of its servers on the message bus. CPU
time counts for both, requests until all were ACTIVE. Then servers to which nothing
happens are watched. Ends with 1 where kiln misses a bar (at full size), be it that it
listens or that it polls.
"""

import argparse
import collections
import os
import statistics
import sys

from tests.bench.cloud.idle import idle
from tests.bench.cloud.race import CONTENDERS, Field, race
from tests.functional.cloud import clean_cloud

ROUNDS = 2
MINE = ('kiln, listening', 'kiln, polling')
P95 = 0.95


class Table:
    """The figures of one number of servers, per server, over all rounds."""

    def __init__(self, servers, runs):
        self.servers = servers
        self.runs = collections.defaultdict(list)
        for run in runs:
            self.runs[run.contender].append(run)

    def mean(self, name, figure):
        return statistics.mean(figure(run) for run in self.runs[name])

    def requests(self, name):
        """Until all were ACTIVE: a delete is one request for everybody."""
        return self.mean(name, lambda run: run.build.requests) / self.servers

    def cpu_ms(self, name):
        cpu_s = self.mean(name, lambda run: run.build.cpu_s + run.delete.cpu_s)
        return cpu_s / self.servers * 1000

    def nova_api_ms(self, name):
        cpu_s = self.mean(name, lambda run: run.build.nova_api_s + run.delete.nova_api_s)
        return cpu_s / self.servers * 1000

    def delay_s(self, name, share=P95):
        delays_s = sorted(delay for run in self.runs[name] for delay in run.delays_s)
        return delays_s[min(len(delays_s) - 1, int(len(delays_s) * share))]

    def show(self):
        print(f'\n{self.servers} servers, per server')
        titles = ('requests', 'to delete', 'CPU, ms', 'nova-api', 'noticed', 'threads', 'wall, s')
        print(f'{"":16}' + ''.join(f'{title:>10}' for title in titles))
        for name, runs in self.runs.items():
            deletes = self.mean(name, lambda run: run.delete.requests) / self.servers
            threads = max(run.build.threads for run in runs)
            wall_s = self.mean(name, lambda run: run.build.wall_s)
            print(
                f'{name:16}{self.requests(name):10.2f}{deletes:10.2f}{self.cpu_ms(name):10.1f}'
                f'{self.nova_api_ms(name):10.0f}{self.delay_s(name):10.2f}{threads:10}{wall_s:10.1f}'
            )

    def show_paths(self, name):
        paths = sum((run.build.paths for run in self.runs[name]), start=collections.Counter())
        print(f'{name} sent: ' + ', '.join(f'{n} {path}' for path, n in sorted(paths.items())))

    def bars(self, name):
        """Yield what must be of one way of kiln's, how it is, and what it may be."""

        def share(figure, other):
            return figure(name) / figure(other)

        yield 'requests, of the bare loop', share(self.requests, 'bare loop'), 1.0
        yield 'requests, of Octavia 10 s', share(self.requests, 'Octavia 10 s'), 1 / 3
        yield 'requests, of Octavia 1 s', share(self.requests, 'Octavia 1 s'), 1 / 4
        yield 'client CPU, of the bare loop', share(self.cpu_ms, 'bare loop'), 1.2
        yield 'ACTIVE noticed, s at p95', self.delay_s(name), 1.5
        for other in ('Octavia 10 s', 'Octavia 1 s'):
            yield f'nova-api CPU, of {other}', share(self.nova_api_ms, other), 1.0


def races(field, servers, rounds):
    runs = []
    for number in range(rounds):
        for contender in CONTENDERS if number % 2 == 0 else reversed(CONTENDERS):
            runs.append(race(field, contender, servers))
            print(runs[-1], f'load {os.getloadavg()[0]:.1f}', file=sys.stderr, flush=True)
    return Table(servers, runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--servers', type=int, nargs='+', default=[20, 50])
    parser.add_argument('--rounds', type=int, default=ROUNDS)
    parser.add_argument('--idle', action='store_true', help='only watch, race nobody')
    parser.add_argument('--small', action='store_true', help='five servers, one round')
    options = parser.parse_args()
    sizes, rounds = ([5], 1) if options.small else (options.servers, options.rounds)
    if options.idle:
        sizes = []
    cloud = clean_cloud('octavia')
    missed = 0
    with Field(cloud) as field:
        for servers in sizes:
            table = races(field, servers, rounds)
            table.show()
            for name in (*MINE, 'bare loop'):
                table.show_paths(name)
            for name in MINE:
                print(f'\n{name}')
                for what, figure, bar in table.bars(name):
                    missed += figure > bar
                    verdict = 'MISSED' if figure > bar else ''
                    print(f'  {what:32}{figure:6.2f}   at most {bar:.2f}   {verdict}'.rstrip())
        missed += not idle(field)
        cloud.run('reset')
    return 1 if missed and not options.small else 0


if __name__ == '__main__':
    sys.exit(main())
