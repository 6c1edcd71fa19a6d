"""CPU seconds of importing kiln, and of opening Noop, beside a bare interpreter.

python -m tests.bench.bench_import
"""

import resource
import statistics
import subprocess
import sys

# pybreaker imports redis wherever it is installed, so what kiln's own
# dependencies cost is seen with redis out of the way.
WITHOUT_EXTRAS = 'import sys; sys.modules.update(redis=None, tornado=None); '
PROGRAMS = {
    'bare interpreter': 'pass',
    'import kiln': 'import kiln',
    'open noop': WITHOUT_EXTRAS + 'import kiln; kiln.open_compute("noop")',
    'open noop, with all extras': 'import kiln; kiln.open_compute("noop")',
}
BOUND_S = 0.25
#: What `import kiln` is to cost, the interpreter included; shown, and not judged.
AIM_S = 0.030


def cpu_s(program):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, '-c', program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main():
    figures = {}
    for name, program in PROGRAMS.items():
        cpu_s(program)
        figures[name] = statistics.median(cpu_s(program) for _ in range(7))
        aim = f'   (aim: {AIM_S:.3f} s)' if name == 'import kiln' else ''
        print(f'{name:<28} {figures[name]:.3f} s of CPU{aim}')
    good = figures['open noop'] <= BOUND_S
    print(f'opening noop stays under {BOUND_S} s: {"yes" if good else "NO"}')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
