"""Animals that drop a part of a request, or take what belongs to other instances."""

import contextlib
import dataclasses
import pwd

from kiln.compute_drivers.noop.bench import NoopBench
from kiln.exceptions import (
    BuildConflict,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    ServiceUnavailable,
)
from kiln.models import Ability, Resource, State
from tests.kit.zoo.builders import Altering
from tests.kit.zoo.species import NO_ADDRESS, PLACED, MinimalAnimal, NoopAnimal, caught_by

ACCOUNT = 'test_a_file_of_an_account_that_only_the_image_has_is_taken_or_refused'


class Dropping(NoopAnimal):
    """Builds another request than it was given."""

    def instead(self, request):
        raise NotImplementedError

    def _build(self, request):
        return super()._build(dataclasses.replace(request, **self.instead(request)))


@caught_by('test_a_flavor_is_reported_as_it_was_given_or_refused')
class DropsFlavors(Altering):
    """Builds every instance with the flavor of the backend."""

    def altered(self, amphora):
        return {'flavor': None}


@caught_by('test_an_image_is_reported_as_it_was_given_or_refused')
class DropsImages(Altering):
    """Builds every instance from the image of the backend."""

    def altered(self, amphora):
        return {'image_id': None}


@caught_by('test_a_zone_is_reported_as_it_was_given_or_refused')
class DropsZones(Altering):
    """Builds every instance in the zone of the backend."""

    def altered(self, amphora):
        return {'availability_zone': None}


@caught_by(
    'test_a_server_group_is_reported_as_it_was_given_or_refused',
    'test_an_instance_knows_its_server_group',
    'test_a_server_group_exists_until_it_is_deleted',
    'test_deleting_a_server_group_leaves_its_members',
    'test_members_of_an_affinity_group_share_a_host',
    'test_members_of_an_anti_affinity_group_have_distinct_hosts',
)
class DropsServerGroups(Dropping):
    """Ignores a server group."""

    def instead(self, request):
        return {'server_group_id': None}


@caught_by(
    'test_a_zone_is_reported_as_it_was_given_or_refused',
    'test_an_instance_is_in_the_zone_that_was_requested',
    'test_an_unknown_zone_is_refused_as_a_build_would_refuse_it',
)
class HasOneZone(Dropping):
    """Builds every instance in the first zone."""

    def instead(self, request):
        return {'availability_zone': 'az1'}


@caught_by('test_a_name_and_metadata_outside_ascii_are_kept_or_refused')
class SpeaksAscii(Altering):
    """Replaces every character of a name that its backend does not know."""

    def altered(self, amphora):
        return {'name': amphora.name.encode('ascii', 'replace').decode()}


@caught_by(
    'test_a_network_of_a_build_is_attached',
    'test_all_that_is_requested_together_is_found_again',
    'test_a_build_has_the_ports_and_the_networks_that_it_named_and_no_others',
    *PLACED,
    NO_ADDRESS,
)
class DropsNetworks(Dropping):
    """Ignores the networks of a build."""

    def instead(self, request):
        return {'network_ids': ()}


@caught_by(
    'test_the_ports_of_a_build_are_attached',
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_a_build_has_the_ports_and_the_networks_that_it_named_and_no_others',
    'test_a_build_with_the_port_of_another_instance_is_refused',
)
class DropsPorts(Dropping):
    """Ignores the ports of a build."""

    def instead(self, request):
        return {'port_ids': ()}


@caught_by(
    'test_the_ports_of_a_build_are_attached',
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_a_build_has_the_ports_and_the_networks_that_it_named_and_no_others',
)
class UsesTheFirstPort(Dropping):
    """Attaches one port of a build."""

    def instead(self, request):
        return {'port_ids': request.port_ids[:1]}


@caught_by('test_a_build_with_a_free_and_a_taken_port_takes_neither', PLACED[2])
class KeepsPortsOfFailures(NoopAnimal):
    """Keeps the free ports of a build that was refused."""

    def __init__(self):
        super().__init__()
        self._kept = set()

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildConflict:
            self._kept.update(request.port_ids)
            raise

    def _attach_port(self, amphora_id, port_id):
        hung = {one.port_id for one in super()._get(amphora_id).addresses}
        if port_id in self._kept - hung:
            raise InstanceStateConflict(f'Cannot attach port {port_id}: it is in use.')
        return super()._attach_port(amphora_id, port_id)


@caught_by(
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_a_build_with_the_port_of_another_instance_is_refused',
)
class BuildsWithoutTakenPorts(NoopAnimal):
    """Builds with the ports that are free."""

    def _build(self, request):
        with contextlib.suppress(BuildConflict):
            return super()._build(request)
        return super()._build(dataclasses.replace(request, port_ids=()))


@caught_by('test_all_that_is_requested_together_is_found_again')
class DropsMetadataBesideFiles(Dropping):
    """Has one place for metadata and files."""

    def instead(self, request):
        return {'metadata': {}} if request.files else {}


@caught_by('test_keys_files_and_user_data_reach_the_backend')
class DropsKeys(Dropping):
    """Ignores public keys."""

    def instead(self, request):
        return {'keys': ()}


@caught_by('test_keys_files_and_user_data_reach_the_backend')
class DropsFilesBesideUserData(Dropping):
    """Sends user data in the place of files."""

    def instead(self, request):
        return {'files': ()} if request.user_data else {}


@caught_by('test_keys_files_and_user_data_reach_the_backend')
class ReadsTextOnly(Dropping):
    """Sends user data as text of another encoding."""

    def instead(self, request):
        text = request.user_data and request.user_data.decode('latin-1')
        return {'user_data': text and text.encode()}


@caught_by(ACCOUNT)
class LooksForAccountsHere(MinimalAnimal):
    """Looks for the owners of files among the accounts of its own machine."""

    def _build(self, request):
        for file in request.files:
            pwd.getpwnam(file.owner.partition(':')[0])
        return super()._build(request)


@caught_by(ACCOUNT)
class GivesFilesOfStrangersToRoot(Dropping):
    """Gives the files of all accounts that it does not know to root."""

    def instead(self, request):
        files = (dataclasses.replace(file, owner='root') for file in request.files)
        return {'files': tuple(files)}


@caught_by(ACCOUNT)
class RefusesAccountsTooLate(MinimalAnimal):
    """Refuses the owner of a file once the amphora is there."""

    def _build(self, request):
        amphora_id = super()._build(request)
        if any(file.owner != 'root' for file in request.files):
            raise InvalidBuildRequest(
                f'Cannot build {request.name}: the owner of a file is not root.',
                build_key=request.build_key,
            )
        return amphora_id


@caught_by('test_all_instances_are_found_however_many_there_are')
class SkipsTheLastPage(NoopAnimal):
    """Reads a list until it has a full page."""

    def _list(self, owner):
        return list(super()._list(owner))[: NoopBench.page_size]


@caught_by(
    'test_addresses_come_in_one_order_and_by_port',
    'test_an_instance_is_described_alike_wherever_it_is_found',
    'test_detaching_a_network_leaves_that_of_another_instance',
    'test_a_build_has_the_ports_and_the_networks_that_it_named_and_no_others',
    PLACED[2],
)
class TurnsAddressesRound(NoopAnimal):
    """Returns addresses in another order at each look."""

    _looks = 0

    def _build(self, request):
        networks = request.network_ids or ('net-1', 'net-2')
        networks = () if request.port_ids else networks
        return super()._build(dataclasses.replace(request, network_ids=networks))

    def _get(self, amphora_id):
        self._looks += 1
        amphora = super()._get(amphora_id)
        return dataclasses.replace(amphora, addresses=amphora.addresses[:: (-1) ** self._looks])


@caught_by(
    'test_detaching_the_port_of_another_instance_leaves_it',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class DetachesFromAnybody(NoopAnimal):
    """Detaches a port from the instance that has it."""

    def _detach_port(self, amphora_id, port_id):
        for one in self.cloud.instances():
            with contextlib.suppress(InstanceNotFoundError, InstanceStateConflict):
                super()._detach_port(one.id, port_id)


@caught_by('test_detaching_a_network_leaves_that_of_another_instance')
class DetachesNetworksFromAll(NoopAnimal):
    """Detaches a network from all instances that it built."""

    def _detach_network(self, amphora_id, network_id):
        super()._get(amphora_id)
        for one in self.cloud.instances():
            with contextlib.suppress(InstanceNotFoundError, InstanceStateConflict):
                super()._detach_network(one.id, network_id)


@caught_by(
    'test_a_network_is_attached_at_the_address_that_was_requested_or_refused',
    'test_an_address_that_is_none_or_taken_is_refused',
)
class IgnoresAddresses(NoopAnimal):
    """Attaches a network at an address of its own choice."""

    def _attach_network(self, amphora_id, network_id, address):
        return super()._attach_network(amphora_id, network_id, None)


class Leaking(NoopAnimal):
    """Keeps what it took for some builds."""

    def __init__(self):
        super().__init__()
        self.kept = set()

    def _attach_port(self, amphora_id, port_id):
        if port_id in self.kept:
            raise InstanceStateConflict(f'Cannot attach port {port_id}: it is in use.')
        return super()._attach_port(amphora_id, port_id)


@caught_by('test_a_refused_build_gives_its_ports_back')
class KeepsPortsOfRefusedBuilds(Leaking):
    """Reserves the ports of a build before it sends the build."""

    def _build(self, request):
        try:
            return super()._build(request)
        except ServiceUnavailable:
            self.kept.update(request.port_ids)
            raise


@caught_by('test_the_ports_of_an_instance_in_error_are_free_when_it_is_deleted')
class KeepsPortsOfErrors(Leaking):
    """Gives back only the ports of instances that run."""

    def _delete(self, amphora_id):
        with contextlib.suppress(InstanceNotFoundError):
            amphora = super()._get(amphora_id)
            if amphora.state is State.ERROR:
                self.kept.update(one.port_id for one in amphora.addresses)
        super()._delete(amphora_id)


class Unplugged(Leaking):
    """Base of animals that cannot attach ports: only a build can show that one is kept."""

    missing_abilities = frozenset({Ability.ATTACH_PORT, Ability.DETACH_PORT})

    def _build(self, request):
        if self.kept.intersection(request.port_ids):
            raise BuildConflict(
                f'Cannot build {request.name}: its port is in use.', build_key=request.build_key
            )
        return super()._build(request)


@caught_by('test_a_refused_build_gives_its_ports_back')
class ReservesPortsOfRefusedBuilds(Unplugged):
    """Reserves the ports of a build before it sends the build, and attaches none."""

    def _build(self, request):
        try:
            return super()._build(request)
        except ServiceUnavailable:
            self.kept.update(request.port_ids)
            raise


@caught_by('test_a_build_with_a_free_and_a_taken_port_takes_neither', PLACED[2])
class ReservesPortsOfConflicts(Unplugged):
    """Reserves the free ports of a build that is refused, and attaches none."""

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildConflict:
            self.kept.update(request.port_ids)
            raise


@caught_by('test_the_ports_of_an_instance_in_error_are_free_when_it_is_deleted')
class ReservesPortsOfErrors(Unplugged):
    """Releases only the ports of instances that run, and attaches none."""

    def _delete(self, amphora_id):
        with contextlib.suppress(InstanceNotFoundError):
            amphora = super()._get(amphora_id)
            if amphora.state is State.ERROR:
                self.kept.update(one.port_id for one in amphora.addresses)
        super()._delete(amphora_id)


@caught_by('test_a_build_can_have_the_port_of_an_instance_that_was_deleted')
class ReservesPortsForEver(Unplugged):
    """Never releases the port of an instance that ran, and attaches none."""

    def _delete(self, amphora_id):
        with contextlib.suppress(InstanceNotFoundError):
            amphora = super()._get(amphora_id)
            if amphora.state is State.ACTIVE:
                self.kept.update(one.port_id for one in amphora.addresses)
        super()._delete(amphora_id)


@caught_by('test_a_refused_build_leaves_no_resource_behind')
class KeepsVolumesOfRefusedBuilds(Leaking):
    """Makes a volume for a build that is then refused."""

    def _build(self, request):
        try:
            return super()._build(request)
        except ServiceUnavailable:
            self.kept.add(request.build_key)
            raise

    def _list_resources(self, owner):
        volumes = [Resource(kind='volume', id=key, owner=self.owner) for key in self.kept]
        return [*super()._list_resources(owner), *(volumes if owner == self.owner else ())]


@caught_by('test_keys_files_and_user_data_reach_the_backend')
class DropsSecurityGroups(Dropping):
    """Ignores security groups."""

    def instead(self, request):
        return {'sec_groups': ()}


@caught_by(
    'test_a_flavor_an_image_and_a_zone_that_exist_are_reported',
    'test_an_image_is_reported_as_it_was_given_or_refused',
    'test_a_build_with_the_key_of_a_claimed_instance_returns_it',
)
class PutsIdsForImages(Dropping):
    """Reports an id of its own for the image that a build named."""

    def instead(self, request):
        return {'image_id': f'id-of-{request.image_id or "image-1"}'}
