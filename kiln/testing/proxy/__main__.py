"""The fault proxy as a command: ``python -m kiln.testing.proxy --upstream URL``."""

from __future__ import annotations

import argparse
import collections
import signal
import sys
from collections.abc import Sequence

from kiln.testing.proxy import rule
from kiln.testing.proxy.exchanges import Exchange
from kiln.testing.proxy.proxy import FaultProxy

_STOP = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a proxy until a signal ends it; print each exchange, and the totals."""
    parser = argparse.ArgumentParser(
        prog='python -m kiln.testing.proxy',
        description='Stands between HTTP clients and a server, and produces faults.',
        epilog=f'Faults: {", ".join(rule.FAULTS)}.',
    )
    parser.add_argument('--upstream', required=True, metavar='URL', help='the server')
    parser.add_argument('--port', type=int, default=0, help='port to listen on; 0 is any free one')
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of the random choice of requests'
    )
    parser.add_argument(
        '--fault',
        action='append',
        default=[],
        metavar='RULE',
        help='METHOD PATH FAULT [name=value ...], such as "POST /servers lose_answer times=1"',
    )
    args = parser.parse_args(argv)
    # Before any other thread starts, so that only this one receives the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    try:
        proxy = FaultProxy(args.upstream, port=args.port, seed=args.seed, on_end=_print)
        for text in args.fault:
            proxy.add(rule.parse(text))
        with proxy:
            _print(f'{proxy.url} forwards to {args.upstream}')
            signal.sigwait(_STOP)
    except (OSError, ValueError) as exc:
        parser.error(str(exc))
    _print(_sum(proxy.requests))


def _sum(exchanges: Sequence[Exchange]) -> str:
    counts = collections.Counter(type(each.fault).__name__ for each in exchanges if each.fault)
    parts = ', '.join(f'{count} {name}' for name, count in sorted(counts.items()))
    return f'{len(exchanges)} requests; faults: {parts or "none"}'


def _print(line: object) -> None:
    sys.stdout.write(f'{line}\n')
    sys.stdout.flush()


if __name__ == '__main__':
    main()
