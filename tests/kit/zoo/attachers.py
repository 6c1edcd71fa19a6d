"""Animals with defects in attaching and detaching, and in what a build attaches."""

import contextlib
import dataclasses
from types import MappingProxyType

from kiln.exceptions import (
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    ResourceNotFoundError,
)
from kiln.models import Attachment, State
from tests.kit.zoo.droppers import Dropping
from tests.kit.zoo.species import LATENCIES, NO_ADDRESS, NoopAnimal, caught_by


@caught_by('test_a_detached_port_can_be_attached_to_the_same_instance_again')
class AttachesFromMemory(NoopAnimal):
    """Returns what it attached before, although it has been detached since."""

    def __init__(self):
        super().__init__()
        self._made = {}

    def _attach_port(self, amphora_id, port_id):
        made = (amphora_id, port_id)
        if made not in self._made:
            self._made[made] = super()._attach_port(amphora_id, port_id)
        return self._made[made]


class MindsTheState(NoopAnimal):
    """Refuses an amphora that does not run, before it looks what is to be done."""

    def mind(self, amphora_id):
        if super()._status(amphora_id).state is State.SUSPENDED:
            raise InstanceStateConflict(
                f'Cannot change the ports of {amphora_id}: it is suspended.',
                amphora_id=amphora_id,
            )


@caught_by('test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached')
class AttachesOnlyToWhatRuns(MindsTheState):
    """Refuses to attach a port again while the instance is suspended."""

    def _attach_port(self, amphora_id, port_id):
        self.mind(amphora_id)
        return super()._attach_port(amphora_id, port_id)


@caught_by('test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached')
class DetachesOnlyFromWhatRuns(MindsTheState):
    """Refuses to detach an unattached port while the instance is suspended."""

    def _detach_port(self, amphora_id, port_id):
        self.mind(amphora_id)
        super()._detach_port(amphora_id, port_id)


@caught_by('test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached')
class DetachesNetworksOnlyFromWhatRuns(MindsTheState):
    """Refuses to detach an unattached network while the instance is suspended."""

    def _detach_network(self, amphora_id, network_id):
        self.mind(amphora_id)
        super()._detach_network(amphora_id, network_id)


@caught_by('test_the_port_of_a_deleted_instance_can_be_attached_elsewhere')
class RenumbersPorts(NoopAnimal):
    """Gives a port that was used before a new address."""

    def __init__(self):
        super().__init__()
        self._users = {}

    def _attach_port(self, amphora_id, port_id):
        attached = super()._attach_port(amphora_id, port_id)
        if self._users.setdefault(port_id, amphora_id) == amphora_id:
            return attached
        return dataclasses.replace(attached, addresses=('192.0.2.77',))


@caught_by(
    'test_each_attaching_of_a_network_makes_a_port_and_detaching_it_takes_all',
    'test_an_address_that_is_none_or_taken_is_refused',
)
class AttachesEachNetworkOnce(NoopAnimal):
    """Returns the port of a network that is attached, although there can be more."""

    def __init__(self):
        super().__init__()
        self._made = {}

    def _attach_network(self, amphora_id, network_id, address):
        made = (amphora_id, network_id)
        if made not in self._made:
            self._made[made] = super()._attach_network(amphora_id, network_id, address)
        return self._made[made]

    def _detach_network(self, amphora_id, network_id):
        super()._detach_network(amphora_id, network_id)
        self._made.pop((amphora_id, network_id), None)


@caught_by(
    'test_each_attaching_of_a_network_makes_a_port_and_detaching_it_takes_all',
    'test_a_network_of_a_build_is_attached',
    'test_all_that_is_requested_together_is_found_again',
    'test_a_network_is_attached_at_the_address_that_was_requested_or_refused',
)
class DetachesNoNetwork(NoopAnimal):
    """Accepts the detach of a network without an effect."""

    def _detach_network(self, amphora_id, network_id):
        super()._status(amphora_id)


class Knowing(NoopAnimal):
    """Knows which ports and networks exist, and takes one for another."""

    cloud_options = MappingProxyType(
        {
            **LATENCIES,
            'networks': ['net-1'],
            'ports': {'port-1': 'net-1', 'port-2': 'net-1'},
        }
    )


@caught_by('test_a_network_that_does_not_exist_is_not_attached')
class AttachesAnyNetwork(Knowing):
    """Attaches the network of the backend in place of one that does not exist."""

    def _attach_network(self, amphora_id, network_id, address):
        try:
            return super()._attach_network(amphora_id, network_id, address)
        except ResourceNotFoundError:
            return super()._attach_network(amphora_id, 'net-1', address)


@caught_by('test_a_port_that_does_not_exist_is_not_attached')
class AttachesAnyPort(Knowing):
    """Reports a port as attached that does not exist."""

    def _attach_port(self, amphora_id, port_id):
        try:
            return super()._attach_port(amphora_id, port_id)
        except ResourceNotFoundError:
            return Attachment(amphora_id=amphora_id, port_id=port_id)


@caught_by('test_a_build_with_a_network_that_does_not_exist_is_refused', NO_ADDRESS)
class BuildsOnAnyNetwork(Knowing):
    """Builds on the network of the backend in place of one that does not exist."""

    def _build(self, request):
        with contextlib.suppress(InvalidBuildRequest):
            return super()._build(request)
        return super()._build(dataclasses.replace(request, network_ids=()))


@caught_by('test_a_build_with_a_port_that_does_not_exist_is_refused')
class BuildsWithAnyPort(Knowing):
    """Builds without the ports that do not exist."""

    def _build(self, request):
        with contextlib.suppress(InvalidBuildRequest):
            return super()._build(request)
        return super()._build(dataclasses.replace(request, port_ids=()))


@caught_by('test_an_address_that_is_none_or_taken_is_refused')
class TakesAnyAddress(NoopAnimal):
    """Attaches a network anywhere where it is given no address."""

    def attach_network(self, amphora_id, network_id, *, address=None):
        try:
            return super().attach_network(amphora_id, network_id, address=address)
        except InvalidRequest:
            return super().attach_network(amphora_id, network_id)


@caught_by('test_a_build_has_the_ports_and_the_networks_that_it_named_and_no_others')
class AddsItsOwnNetwork(Dropping):
    """Attaches its own network to each instance that has a port."""

    def instead(self, request):
        return {'network_ids': (*request.network_ids, 'net-0')} if request.port_ids else {}


class Refusing(NoopAnimal):
    """Refuses to attach by errors that name less than they could."""

    def named(self, error):
        raise NotImplementedError

    def _attach_port(self, amphora_id, port_id):
        try:
            return super()._attach_port(amphora_id, port_id)
        except InstanceStateConflict as exc:
            raise self.named(exc) from exc


@caught_by('test_a_port_in_use_elsewhere_is_refused')
class NamesNoPort(Refusing):
    """Names the amphora of a port that is in use, and not the port."""

    def named(self, error):
        return InstanceStateConflict(
            str(error), amphora_id=error.amphora_id, retryable=error.retryable
        )


@caught_by(
    'test_a_port_in_use_elsewhere_is_refused',
    'test_a_conflict_with_what_is_being_built_is_retryable',
    'test_a_conflict_with_what_is_suspended_is_not_retryable',
)
class NamesNoAmphora(Refusing):
    """Names a port that cannot be attached, and not the amphora."""

    def named(self, error):
        return InstanceStateConflict(
            str(error), resource_id=error.resource_id, retryable=error.retryable
        )


class Conflicting(NoopAnimal):
    """Raises its own error for a suspend or a reboot that the state does not allow."""

    def conflict(self, error):
        raise NotImplementedError

    def _reboot(self, amphora_id, hard):
        try:
            super()._reboot(amphora_id, hard)
        except InstanceStateConflict as exc:
            raise self.conflict(exc) from exc


@caught_by(
    'test_a_conflict_with_what_is_being_built_is_retryable',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
)
class GivesUpOnTheBusy(Conflicting):
    """Advises against a retry, although the instance is only busy."""

    def conflict(self, error):
        return InstanceStateConflict(str(error), amphora_id=error.amphora_id, retryable=False)


@caught_by('test_a_conflict_with_what_is_suspended_is_not_retryable')
class WaitsForTheSuspended(Conflicting):
    """Advises a retry, although the instance stays as it is."""

    def conflict(self, error):
        return InstanceStateConflict(str(error), amphora_id=error.amphora_id, retryable=True)


@caught_by('test_the_error_of_a_call_about_something_else_names_it')
class NamesNoFlavor(NoopAnimal):
    """Refuses a flavor, and names it in the text alone."""

    def _validate_flavor(self, flavor):
        try:
            super()._validate_flavor(flavor)
        except InvalidRequest as exc:
            raise InvalidRequest(str(exc)) from exc


@caught_by(
    'test_a_conflict_with_what_is_being_built_is_retryable',
    'test_a_conflict_with_what_is_suspended_is_not_retryable',
)
class BlamesThePort(NoopAnimal):
    """Names the port where the amphora is busy or suspended."""

    def _attach_port(self, amphora_id, port_id):
        try:
            return super()._attach_port(amphora_id, port_id)
        except InstanceStateConflict as exc:
            exc.resource_id = port_id
            raise
