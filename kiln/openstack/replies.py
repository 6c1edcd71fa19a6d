"""Replies of OpenStack services: the parts that decide about an error; pure."""

from __future__ import annotations

import dataclasses
import email.utils
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

#: The product names of the services.
SERVICES = {
    'compute': 'Nova',
    'network': 'Neutron',
    'image': 'Glance',
    'identity': 'Keystone',
    'orchestration': 'Heat',
    'baremetal': 'Ironic',
}

_LONGEST_REASON = 500
_SECONDS = re.compile(r'[0-9]{1,9}(\.[0-9]+)?')
# The web framework's own message for a path that the service does not have. It
# never refers to an object of the service.
_NO_PATH = 'The resource could not be found.'
_BREAK = re.compile(r'<br ?/?>')
# Nova quotes values that do not fit its schemas, even secret ones.
_QUOTING = re.compile(
    r'(Invalid input for field/attribute (?:server|user_data|personality|contents)\b).*',
    re.DOTALL,
)
_COMPLAINT = re.compile(
    r"is (?:too|not) [\w ]*|'\w{1,40}' (?:is a required property|was unexpected)"
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The parts of an HTTP response that decide about the error."""

    service: str
    status: int
    headers: Mapping[str, str]
    # The JSON of the body; None if the body is not JSON, such as a proxy's HTML.
    body: Any = None
    # Masks what the request has sent, before the service's message is cut.
    hide: Callable[[str], str] = str

    @property
    def who(self) -> str:
        """The product name of the service."""
        return SERVICES.get(self.service, self.service)

    @property
    def request_id(self) -> str | None:
        """The id under which the service logs the request."""
        return self.headers.get('x-openstack-request-id') or self.headers.get(
            'x-compute-request-id'
        )

    @property
    def reason(self) -> str | None:
        """The service's own message; None if something else has answered."""
        text = _own_words(self.body)
        return None if text is None else fit_to_tell(self.hide(text))

    def retry_after(self, now: float) -> float | None:
        """Return the seconds of Retry-After, which is a number or a date."""
        text = self.headers.get('retry-after')
        if text is None:
            return None
        # float() strips fewer characters.
        if _SECONDS.fullmatch(stripped := text.strip()):
            return float(stripped)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
        # A time zone can be beyond all dates.
        except (ValueError, OverflowError):
            return None


def _own_words(body: Any) -> str | None:
    if not isinstance(body, Mapping):
        return None
    # Nova: {"badRequest": {...}}. Keystone: {"error": {...}}. Neutron:
    # {"NeutronError": {...}}. Ironic: {"error_message": {"faultstring": ...}}.
    # Newer ones: {"errors": [{...}]}. Glance, and the frame around Nova:
    # {"message": ..., "code": "404 Not Found", "title": ...}.
    if isinstance(errors := body.get('errors'), list) and errors:
        body = {'errors': errors[0]}
    faults = [body] if {'message', 'code', 'title'} <= body.keys() else body.values()
    for fault in map(_unwrapped, faults):
        if isinstance(fault, Mapping):
            for key in ('message', 'faultstring', 'detail', 'title'):
                if isinstance(text := fault.get(key), str) and text.strip():
                    return None if _BREAK.sub('', text).strip() == _NO_PATH else text
    return None


def _unwrapped(fault: Any) -> Any:
    """Return the fault that Ironic writes as JSON within JSON."""
    if not isinstance(fault, str) or not fault.startswith('{'):
        return fault
    try:
        return json.loads(fault)
    except (ValueError, RecursionError):
        return None


def fit_to_tell(text: str) -> str:
    """Return a text as one line, without quoting what was sent."""
    return without_quotes(' '.join(_BREAK.sub(' ', text).split()))[:_LONGEST_REASON]


def without_quotes(text: str) -> str:
    """Return a text without the values that Nova quotes, whatever another service put before."""
    quoting = _QUOTING.search(text)
    if quoting is None:
        return text
    *_, complaint = ['', *_COMPLAINT.findall(quoting[0])]
    return f'{text[: quoting.start()]}{quoting[1]}: {complaint}'.rstrip(': ')
