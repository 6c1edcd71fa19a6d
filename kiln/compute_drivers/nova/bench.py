"""Conformance bench of the Nova driver: the time that its backends take."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench, CannotBeShown


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
