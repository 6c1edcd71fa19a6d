"""What kiln costs on a real OpenStack, beside Octavia's own driver and a bare loop.

    python -m tests.bench.cloud [--servers 20 50] [--small]

Each contender takes the same servers to ACTIVE and deletes them, in a process of its
own, in alternated order. Ends with 1 where kiln misses a bar (at full size).
"""

import argparse
import collections
import os
import statistics
import sys

from tests.bench.cloud.race import CONTENDERS, Field, race
from tests.functional.cloud import clean_cloud

ROUNDS = 2
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
        return self.mean(name, lambda run: run.build.requests + run.delete.requests) / self.servers

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
        print(
            f'\n{self.servers} servers: per server{"requests":>15}{"build":>7}{"client":>8}'
            f'{"nova-api":>10}{"noticed":>9}{"threads":>9}{"wall":>7}'
        )
        print(f'{"":22}{"":>15}{"alone":>7}{"ms":>8}{"ms":>10}{"p95, s":>9}{"":>9}{"s":>7}')
        for name, runs in self.runs.items():
            alone = self.mean(name, lambda run: run.build.requests) / self.servers
            threads = max(run.build.threads for run in runs)
            wall_s = self.mean(name, lambda run: run.build.wall_s)
            print(
                f'{name:22}{self.requests(name):15.2f}{alone:7.2f}{self.cpu_ms(name):8.1f}'
                f'{self.nova_api_ms(name):10.0f}{self.delay_s(name):9.2f}{threads:9}{wall_s:7.1f}'
            )

    def show_paths(self, names):
        for name in names:
            paths = sum(
                (run.build.paths + run.delete.paths for run in self.runs[name]),
                start=collections.Counter(),
            )
            print(f'{name}, requests of all rounds:')
            for path, count in sorted(paths.items()):
                print(f'{count:6}  {path}')

    def bars(self):
        """Yield what must be, how it is, and whether it is so."""
        mine, bare = self.requests('kiln'), self.requests('bare loop')
        yield 'requests, of the bare loop', mine / bare, 1.0
        yield 'requests, of Octavia 10 s', mine / self.requests('Octavia 10 s'), 1 / 3
        yield 'requests, of Octavia 1 s', mine / self.requests('Octavia 1 s'), 1 / 4
        yield 'client CPU, of the bare loop', self.cpu_ms('kiln') / self.cpu_ms('bare loop'), 1.2
        yield 'ACTIVE noticed, s at p95', self.delay_s('kiln'), 1.5
        for name in ('Octavia 10 s', 'Octavia 1 s'):
            yield (
                f'nova-api CPU, of {name}',
                self.nova_api_ms('kiln') / self.nova_api_ms(name),
                1.0,
            )


def races(field, servers, rounds):
    runs = []
    for number in range(rounds):
        for contender in CONTENDERS if number % 2 == 0 else reversed(CONTENDERS):
            run = race(field, contender, servers)
            load = os.getloadavg()[0]
            print(
                f'{servers} x {run.contender}: {run.build.requests}+{run.delete.requests} requests, {run.build.cpu_s:.3f}+{run.delete.cpu_s:.3f} s, '
                f'{run.build.wall_s:.1f} s to ACTIVE (load {load:.1f})',
                file=sys.stderr,
                flush=True,
            )
            runs.append(run)
    return Table(servers, runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--servers', type=int, nargs='+', default=[20, 50])
    parser.add_argument('--rounds', type=int, default=ROUNDS)
    parser.add_argument('--small', action='store_true', help='five servers, one round')
    options = parser.parse_args()
    sizes, rounds = ([5], 1) if options.small else (options.servers, options.rounds)
    missed = 0
    with Field(clean_cloud('octavia')) as field:
        for servers in sizes:
            table = races(field, servers, rounds)
            table.show()
            table.show_paths(['kiln', 'bare loop'])
            for what, figure, bar in table.bars():
                missed += figure > bar
                print(
                    f'{what:32}{figure:6.2f}   at most {bar:.2f}{"" if figure <= bar else "   MISSED"}'
                )
    return 1 if missed and not options.small else 0


if __name__ == '__main__':
    sys.exit(main())
