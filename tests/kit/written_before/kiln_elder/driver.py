"""Builds virtual machines on Elder: the calls, and nothing but the calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kiln.compute_drivers.adoption import adopted
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import Amphora, AmphoraType, BuildRequest, Limits

from kiln_elder.client import Client
from kiln_elder.conf import OPTIONS
from kiln_elder.errors import backend_errors
from kiln_elder.translate import OWNER_TAG, to_amphora, to_order


class ElderDriver(AmphoraComputeDriver):
    """Kiln's compute driver for Elder.

    Hooks get arguments that were checked, return once the backend has agreed,
    never wait, never retry, and may be called from many threads at once.
    """

    options = OPTIONS
    #: What the conformance kit tries it with; see bench.py.
    bench = 'kiln_elder.bench:ElderBench'
    limits = Limits(
        amphora_types=frozenset({AmphoraType.VM}),
        # What your backend takes, in bytes and in numbers. Kiln refuses more
        # before it asks you.
        max_user_data_bytes=16_384,
        # Arguments of build() that mean nothing on your backend. Refuse them:
        # one that is silently ignored is found out in production.
        refused_options=frozenset({'server_group_id'}),
    )

    def __init__(self, conf: Any) -> None:
        # Touch no network here: a backend that is down must not keep the
        # controller from starting.
        self.client = Client(
            endpoint=conf.endpoint, token=conf.token, timeout=conf.request_timeout
        )

    def _build(self, request: BuildRequest) -> str:
        # Return once the machine has an id; kiln watches it boot.
        #
        # Owner and build key go onto the machine in the step that makes it; a
        # second call for tags can be lost, and leaves a machine nobody finds.
        # The token makes a repeat harmless. Has your backend none? Then look
        # with self._find_build(request.build_key) first.
        with backend_errors('build', build_key=request.build_key):
            machine = self.client.create(to_order(request))
        # A machine that was there may be another than is asked for: of another
        # flavor, type, image or name. That is refused, never adopted.
        return adopted(request, to_amphora(machine))

    def _delete(self, amphora_id: str) -> None:
        # A machine that is gone raises InstanceNotFoundError; kiln counts that
        # as success. Whatever you made beside the machine goes with it.
        with backend_errors('delete', amphora_id=amphora_id):
            self.client.destroy(amphora_id)

    def _get(self, amphora_id: str) -> Amphora:
        # InstanceNotFoundError only where the backend is sure. "I do not know
        # now" is ServiceUnavailable.
        with backend_errors('read', amphora_id=amphora_id):
            return to_amphora(self.client.show(amphora_id))

    def _list(self, owner: str) -> Iterable[Amphora]:
        # All of them: follow the pages to the end, and leave out neither those
        # that failed nor those that still build. Filter by owner on the
        # backend's side if it can.
        with backend_errors('list'):
            machines = self.client.search({OWNER_TAG: owner})
        return [to_amphora(machine) for machine in machines]

    def close(self) -> None:
        """Give back the connections."""
        self.client.close()

    # Find by name, find by build key, status, bulk status and changes work
    # already, on top of _get and _list. Override _find_build, _statuses or
    # _changes where your backend answers them in one cheaper request.
    #
    # Suspend, resume, reboot, rebuild, attach, groups, console log: override
    # the hook of what your backend can do (kiln/compute_drivers/hooks.py lists
    # them). To override a hook is to declare the ability; the conformance kit
    # then tests it.
