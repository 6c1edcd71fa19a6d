"""Runs every bench one after the other; ``--small`` at the sizes of CI."""

import pathlib
import subprocess
import sys
import tempfile

from tests.time_limit import LEFT_OUT, is_left_out

FOLDER = pathlib.Path(__file__).parent
#: A bench that takes longer hangs.
LONGEST_S = 1800
#: What a bench is run with: at full size, and small.
SIZES = {
    'bench_callers': [([], ['--hang', '5'])],
    'bench_db': [([], ['--commits', '200'])],
    'bench_docker': [([], ['--nodes', '5', '--rounds', '1'])],
    'bench_engine': [([], ['--nodes', '50', '200'])],
    'bench_heat': [([], ['--clusters', '10'])],
    'bench_noop': [([], ['--sizes', '300,3000'])],
    'bench_planner': [([], ['--nodes', '2000'])],
    'bench_proxy': [([], ['--requests', '200'])],
    'bench_swarm': [([], ['--managers', '1', '--workers', '1', '--rounds', '1'])],
    'bench_watcher': [([], ['--waits', '10000'])],
    'bench_fleet': [
        (['--builds', '10000', '--latency', '30'], ['--builds', '1000', '--latency', '5']),
        (['--virtual', '--builds', '100000'], ['--virtual', '--builds', '5000']),
    ],
}


def main():
    small = '--small' in sys.argv[1:]
    failed = []
    for path in sorted(FOLDER.glob('bench_*.py')):
        for sizes in SIZES.get(path.stem, [([], [])]):
            if is_left_out(f'tests/bench/{path.name}'):
                print(f'---- {path.stem}: {LEFT_OUT}')
                continue
            arguments = sizes[small]
            print(f'---- {path.stem} {" ".join(arguments)}', flush=True)
            command = [sys.executable, '-m', f'tests.bench.{path.stem}', *arguments]
            # Not a pipe: what a bench leaves running would keep it open.
            with tempfile.TemporaryFile('w+') as errors:
                done = subprocess.run(command, check=False, stderr=errors, timeout=LONGEST_S)
                errors.seek(0)
                said = errors.read()
            sys.stderr.write(said)
            # At its small size a figure is a sign, not a measurement: on a
            # busy machine only a bench that breaks fails there.
            if 'Traceback' in said if small else done.returncode:
                failed.append(path.stem)
    if failed:
        print(f'failed: {", ".join(failed)}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
