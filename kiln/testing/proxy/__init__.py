"""An HTTP proxy on loopback that misbehaves by script: see :class:`FaultProxy`.

It stands between a client and a real API server, so a driver can be tested with
all that networks and load balancers do, without a patch on either side.
"""

from kiln.testing.proxy.connection import Visit
from kiln.testing.proxy.exchanges import Exchange, Request
from kiln.testing.proxy.faults import (
    Answer,
    Close,
    Delay,
    Fault,
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
from kiln.testing.proxy.script import Rule

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
