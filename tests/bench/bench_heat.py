"""Requests to Heat while many clusters are created: kiln's poller, and a loop over stacks.

python -m tests.bench.bench_heat [--clusters 50]
"""

import argparse

from tests.unit.cluster_drivers.heat.many import by_a_loop, by_kiln


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--clusters', type=int, default=50)
    count = parser.parse_args().clusters
    print(f'{count} clusters of two groups, created at once')
    print(f'{"":24}{"nothing changes":>18}{"all of them end":>18}{"seen after":>12}')
    for name, play in (('kiln', by_kiln), ('a loop over stacks', by_a_loop)):
        found = play(count)
        still = f'{found.still_per_s:.2f} a second'
        print(f'{name:24}{still:>18}{found.ending:>9} requests{found.latest_s:>10.1f} s')


if __name__ == '__main__':
    main()
