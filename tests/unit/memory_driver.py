"""A minimal driver, for tests of the code around drivers."""

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, Limits, State
from kiln.testing.clock import VirtualClock


class MemoryDriver(AmphoraComputeDriver):
    """Keeps amphorae in a dict; fails and delays on request."""

    limits = Limits()

    def __init__(self, clock=None):
        self.name = 'east'
        self.clock = clock or VirtualClock()
        self.amphorae = {}
        #: Called at the start of each hook with its name and arguments.
        self.on_hook = lambda hook, *args: None

    def _build(self, request):
        self.on_hook('_build', request)
        amphora = Amphora(
            id=f'id-{len(self.amphorae) + 1}',
            name=request.name,
            state=State.ACTIVE,
            build_key=request.build_key,
            owner=request.owner,
        )
        self.amphorae[amphora.id] = amphora
        return amphora.id

    def _delete(self, amphora_id):
        self.on_hook('_delete', amphora_id)
        self.amphorae.pop(amphora_id, None)

    def _get(self, amphora_id):
        self.on_hook('_get', amphora_id)
        if amphora_id not in self.amphorae:
            raise InstanceNotFoundError(f'Cannot read {amphora_id}: not found.')
        return self.amphorae[amphora_id]

    def _list(self, owner):
        self.on_hook('_list', owner)
        return (amphora for amphora in self.amphorae.values() if amphora.owner == owner)
