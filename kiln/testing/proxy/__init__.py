"""HTTP proxy on loopback that produces faults by rules: see :class:`FaultProxy`.

It stands between a client and a real API server, so a driver can be tested with
the faults of networks and load balancers, and neither side is patched.
"""

from kiln.testing.proxy.exchanges import Exchange, Fault, Request, Visit
from kiln.testing.proxy.faults import (
    Answer,
    Close,
    Delay,
    Hang,
    LoseAnswer,
    Refuse,
    Reset,
    Serve,
    Trickle,
    Truncate,
    html_page,
    nova_error,
    token_expired,
)
from kiln.testing.proxy.proxy import FaultProxy, fault_proxies
from kiln.testing.proxy.rule import Rule

__all__ = [
    'Answer',
    'Close',
    'Delay',
    'Exchange',
    'Fault',
    'FaultProxy',
    'Hang',
    'LoseAnswer',
    'Refuse',
    'Request',
    'Reset',
    'Rule',
    'Serve',
    'Trickle',
    'Truncate',
    'Visit',
    'fault_proxies',
    'html_page',
    'nova_error',
    'token_expired',
]
