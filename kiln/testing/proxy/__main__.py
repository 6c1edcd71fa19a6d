"""A fault proxy for people: ``python -m kiln.testing.proxy --upstream URL --port N``."""

from __future__ import annotations

import argparse
import collections
import signal
import sys
from collections.abc import Sequence

from kiln.testing.proxy import words
from kiln.testing.proxy.exchanges import Exchange
from kiln.testing.proxy.proxy import FaultProxy

_STOP = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str] | None = None) -> None:
    """Stand before a server until told to stop; print each exchange, and the sum."""
    parser = argparse.ArgumentParser(
        prog='python -m kiln.testing.proxy',
        description='Stands between HTTP clients and a server, and misbehaves as told.',
        epilog=f'Faults: {", ".join(words.FAULTS)}.',
    )
    parser.add_argument('--upstream', required=True, metavar='URL', help='the server')
    parser.add_argument('--port', type=int, default=0, help='where to listen; any free one')
    parser.add_argument('--seed', type=int, default=0, help='decides whom a chance hits')
    parser.add_argument(
        '--fault',
        action='append',
        default=[],
        metavar='RULE',
        help='METHOD PATH FAULT [name=value ...], such as "POST /servers lose_answer times=1"',
    )
    args = parser.parse_args(argv)
    # Before there is any other thread, so that none is woken in place of this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    try:
        proxy = FaultProxy(args.upstream, port=args.port, seed=args.seed, on_end=_say)
        for text in args.fault:
            proxy.add(words.rule(text))
        with proxy:
            _say(f'{proxy.url} stands before {args.upstream}')
            signal.sigwait(_STOP)
    except (OSError, ValueError) as exc:
        parser.error(str(exc))
    _say(_sum(proxy.requests))


def _sum(exchanges: Sequence[Exchange]) -> str:
    met = collections.Counter(type(each.fault).__name__ for each in exchanges if each.fault)
    parts = ', '.join(f'{count} {name}' for name, count in sorted(met.items()))
    return f'{len(exchanges)} requests; faults: {parts or "none"}'


def _say(line: object) -> None:
    sys.stdout.write(f'{line}\n')
    sys.stdout.flush()


if __name__ == '__main__':
    main()
