"""Requests for stacks, sent like those to Nova; each raises the errors of its call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.exceptions import ServiceUnavailable
from kiln.openstack.heat.requests import PAGE, SERVICE, StackRequests


class Stacks(StackRequests):
    """Requests of one call."""

    def __init__(self, services: Services, asked: Asked, *, page: int = PAGE) -> None:
        self._services = services
        self._asked = asked
        self.page = page

    def ask(
        self,
        action: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Send one request; its errors name the call, and not this action of it."""
        found = self._services.ask(
            self._asked, method, path, service=SERVICE, query=query, body=body
        )
        answer = found if isinstance(found, Mapping) else {}
        if (method, path) == ('GET', '/stacks') and not isinstance(answer.get('stacks'), list):
            # An answer of something else must not be read as "it is gone".
            raise self._asked.error(
                ServiceUnavailable, 'what answers in the place of Heat has no list of stacks.'
            )
        return answer
