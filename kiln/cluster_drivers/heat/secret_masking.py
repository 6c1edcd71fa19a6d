"""Masking of a cluster's secrets in what Heat reports, before anything of it is cut."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Sequence

from kiln.cluster_drivers.heat.mappings import Definition
from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import encodings

_MASK = '***'
#: Shorter forms occur in ordinary words.
_SHORTEST = 6
_SENT: contextvars.ContextVar[Sequence[str]] = contextvars.ContextVar('secrets', default=())


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets, in whichever form Heat and Nova quote them.

    Nor does it end with the beginning of one: Heat stores only 255 characters of the reason of
    an event.
    """
    # The longest first: one can be a part of another.
    forms = sorted({form for one in secrets for form in _forms(one)}, key=len, reverse=True)
    for form in forms:
        text = text.replace(form, _MASK)
    for form in forms:
        text = _without_beginning(text, form)
    return text


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, without blanks at its ends, as one line, and encoded."""
    if secret:
        yield secret
    bare = secret.strip()
    for form in (bare, ' '.join(secret.split()), *encodings(bare), *encodings(secret)):
        if len(form) >= _SHORTEST:
            yield form


def _without_beginning(text: str, form: str) -> str:
    at = text.find(form[:_SHORTEST]) if len(form) > _SHORTEST else -1
    while at >= 0:
        if form.startswith(text[at:]):
            return text[:at] + _MASK
        at = text.find(form[:_SHORTEST], at + 1)
    return text


def hidden_sent(text: str) -> str:
    """Return a text without the secrets of the request that is under way in this thread."""
    return hidden(text, _SENT.get())


@contextlib.contextmanager
def masked(definition: Definition) -> Iterator[None]:
    """Keep secrets out of errors: Heat quotes the values that it refuses."""
    former = _SENT.set(definition.secrets)
    try:
        yield
    except ClusterDriverError as exc:
        exc.args = (hidden(str(exc), definition.secrets),)
        exc.reason = hidden(exc.reason, definition.secrets)
        raise
    finally:
        _SENT.reset(former)
