"""Mapping of Heat's answers to the errors of cluster drivers; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.clusters.exceptions import ClusterDriverError
from kiln.openstack.replies import Reply

_CHECK = 'Check Heat, and the address and credentials in the secret of the cluster.'
_PASSING = frozenset({408, 409, 413, 429})


class HeatUnavailable(ClusterDriverError):
    """Heat or Keystone gives no usable answer now; the request may be repeated."""

    code = 'heat_unavailable'
    remedy = 'Nothing to do if it passes; else check Heat, and the credentials.'
    retryable = True


class HeatRefused(ClusterDriverError):
    """Heat refuses a request; nothing was done."""

    code = 'heat_refused'
    remedy = "Correct what Heat's own words name."


class StackNotFound(HeatRefused):
    """Heat has no such stack."""

    code = 'stack_not_found'
    remedy = 'See what happened to the stack; an update of the cluster creates it again.'


class StackExists(HeatRefused):
    """A stack of the name exists."""

    code = 'stack_exists'
    remedy = 'Delete or rename the other stack.'


def unavailable(action: str, why: str) -> HeatUnavailable:
    """Return the error for a request without a usable answer."""
    return HeatUnavailable(f'Cannot {action}: {why}.', _CHECK)


def refused(action: str, reply: Reply) -> ClusterDriverError:
    """Return the error for an answer with a status of 300 or above."""
    said, status = reply.reason, reply.status
    if said is None:
        # A proxy, or a wrong address: never to be read as "gone" or "refused".
        why = f'something in front of {reply.who}, or a wrong address, answered {status}'
        return unavailable(action, why)
    text = f'Cannot {action}: {reply.who} answered {status}: {said.rstrip(".")}.'
    kind = _fault(reply.body)
    if status == 404:
        return StackNotFound(text)
    if kind == 'StackExists':
        return StackExists(text)
    if status == 401:
        return HeatRefused(text, 'Check the credentials in the secret of the cluster.')
    if status >= 500 or status in _PASSING:
        return HeatUnavailable(text)
    return HeatRefused(text)


def _fault(body: Any) -> str:
    """Return the kind of error that Heat names."""
    fault = body.get('error') if isinstance(body, Mapping) else None
    return str(fault.get('type', '')) if isinstance(fault, Mapping) else ''
