"""Conformance bench of the Nova driver: the time that its backends take, and bare servers."""

from __future__ import annotations

from kiln.clock import Deadline
from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import InvalidBuildRequest
from kiln.models import State

_STEP_S = 1.0


class NovaBench(Bench):
    """Waits as long as a backend in use can take."""

    # A server boots in minutes where its image is new to a host.
    timeout_s = 600.0
    soon_s = 60.0
    knows_ports = True
    knows_networks = True

    def host_of(self, amphora_id: str) -> str:
        # The name of the host is for administrators; this is a digest of it for the project.
        return str(self.driver.get_amphora(amphora_id=amphora_id).raw['hostId'])

    def reboots_hard(self, amphora_id: str) -> bool:
        task = self.driver.status(amphora_id).task_state
        if task is None:
            raise CannotBeShown('the reboot has ended')
        return bool(task.endswith('_hard'))

    def make_unowned(self, name: str) -> str:
        """Build a server by the options alone, and take all marks of kiln from it."""
        try:
            server_id = str(self.driver.build(name=name))
        except InvalidBuildRequest as exc:
            raise CannotBeShown(f'the options alone build no server: {exc}') from exc
        # Nova takes no tag from a server before it runs.
        self._wait(server_id)
        asked, path = Asked.about('disown', server_id), f'/servers/{server_id}'
        ask = self.driver._services.ask
        ask(asked, 'DELETE', f'{path}/tags')
        ask(asked, 'PUT', f'{path}/metadata', body={'metadata': {'made': 'by hand'}})
        return server_id

    def _wait(self, server_id: str) -> None:
        clock = self.driver.clock
        deadline = Deadline.after(self.timeout_s, clock)
        while (state := self.driver.status(server_id).state) is not State.ACTIVE:
            if state.settled or deadline.passed:
                raise CannotBeShown(
                    f'server {server_id}, which is to be claimed, is {state.value}'
                )
            clock.sleep(_STEP_S)
