"""Base classes and registry of the wrong drivers of the zoo."""

import dataclasses
import uuid

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import Limits
from kiln.testing.clock import VirtualClock
from kiln.testing.minimal import MinimalDriver

LATENCIES = {
    'build_s': 30,
    'delete_s': 5,
    'suspend_s': 4,
    'resume_s': 4,
    'reboot_s': 20,
    'rebuild_s': 40,
}

#: Arguments of builds that minimal animals have no place for.
REFUSED = frozenset({'network_ids', 'port_ids', 'server_group_id'})

#: Behaviours in which two threads switch at chosen lines of an animal.
ONE_WHEREVER = 'test_builds_with_one_key_make_one_instance_wherever_threads_switch'
READ_WHEREVER = 'test_a_read_succeeds_wherever_threads_switch_to_a_delete'
LIST_WHEREVER = 'test_a_list_is_complete_wherever_threads_switch_to_a_build_or_a_delete'

#: The behaviour in which the name of an image moves to another image.
MOVED = 'test_building_again_once_the_name_of_the_image_has_moved_returns_the_first_instance'
#: The behaviour in which a build requests what is not an address.
NO_ADDRESS = 'test_a_build_at_what_is_not_an_address_is_refused'
#: Behaviours of builds at a fixed address: alone, one after the other, and at once.
PLACED = (
    'test_a_build_has_the_fixed_address_that_it_requested_or_is_refused',
    'test_the_fixed_address_of_an_instance_is_refused_to_another_build',
    'test_of_two_builds_at_once_at_one_address_one_has_it_and_the_other_nothing',
)

#: Every animal, with exactly the behaviours that catch it.
ZOO = {}
#: Animals that cannot do what most behaviours begin with, and so are caught by many more.
HELPLESS = set()


def caught_by(*behaviours, among_others=False):
    """Put a driver with one defect into the zoo."""

    def keep(animal):
        ZOO[animal] = frozenset(behaviours)
        if among_others:
            HELPLESS.add(animal)
        return animal

    return keep


class MinimalAnimal(MinimalDriver):
    """Correct except for one defect; has the fewest abilities.

    It takes the contents that no call reports, so that an animal can misuse them.
    """

    limits = Limits(refused_options=REFUSED)

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()

    def build_anyway(self, request):
        """Build without checking if an instance has the key."""
        key = f'{request.build_key}-{uuid.uuid4().hex}'
        amphora_id = super()._build(dataclasses.replace(request, build_key=key))
        self.change(amphora_id, build_key=request.build_key)
        return amphora_id

    def with_key(self, request):
        """Return the record of the instance with the key of a build, or None."""
        built = (request.owner, request.build_key)
        records = list(self._amphorae.values())
        return next((one for one in records if (one.owner, one.build_key) == built), None)

    def change(self, amphora_id, **facts):
        """Change the record of an instance."""
        with self._lock:
            amphora = self._amphorae[amphora_id]
            self._amphorae[amphora_id] = dataclasses.replace(amphora, **facts)


class NoopAnimal(NoopDriver):
    """Correct except for one defect; has all abilities, latencies and faults."""

    cloud_options = LATENCIES

    def __init__(self):
        super().__init__(cloud=NoopCloud(clock=VirtualClock(), **self.cloud_options))
