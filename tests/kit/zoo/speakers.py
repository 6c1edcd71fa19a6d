"""Animals that answer in a wrong way: values, errors, abilities, shape."""

import dataclasses
import datetime
import logging
import threading

from kiln.exceptions import (
    Advice,
    InstanceNotFoundError,
    UnsupportedOperation,
)
from kiln.models import Ability, Amphora, ComputeStatus
from tests.kit.zoo.species import MinimalAnimal, NoopAnimal, caught_by

LOG = logging.getLogger(__name__)


class Describing(MinimalAnimal):
    """Has its own way to describe an instance, wherever it does."""

    def describe(self, amphora):
        raise NotImplementedError

    def _get(self, amphora_id):
        return self.describe(super()._get(amphora_id))

    def _list(self, owner):
        return [self.describe(one) for one in super()._list(owner)]


class Missing(MinimalAnimal):
    """Has its own way to say that there is no instance."""

    def lament(self, error):
        raise NotImplementedError

    def _status(self, amphora_id):
        try:
            return super()._status(amphora_id)
        except InstanceNotFoundError as exc:
            raise self.lament(exc) from None


@caught_by('test_a_status_has_its_time_of_observation')
class ForgetsWhenItLooked(MinimalAnimal):
    """Says of nothing when it was observed."""

    def _status(self, amphora_id):
        return self._get(amphora_id).status(0.0)


@caught_by('test_a_running_instance_is_not_reported_as_never_served')
class ForgetsThatItRan(Describing):
    """Says of each instance that it has never run."""

    def describe(self, amphora):
        return dataclasses.replace(amphora, served=False)


@caught_by('test_a_building_instance_is_not_reported_as_served')
class CallsABuildServed(NoopAnimal):
    """Says of each instance that it has run."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), served=True)


@caught_by('test_a_status_that_was_just_requested_is_not_stale')
class AlwaysStale(MinimalAnimal):
    """Calls each answer old."""

    def _status(self, amphora_id):
        return dataclasses.replace(super()._status(amphora_id), stale=True)


@caught_by('test_a_status_has_the_requested_id')
class ShoutsIds(MinimalAnimal):
    """Gives an id in another form than it takes it."""

    def _status(self, amphora_id):
        status = super()._status(amphora_id)
        return dataclasses.replace(status, amphora_id=amphora_id.upper())


@caught_by('test_the_time_of_creation_is_in_seconds_since_the_epoch')
class CountsMilliseconds(Describing):
    """Gives a moment in milliseconds."""

    def describe(self, amphora):
        return dataclasses.replace(amphora, created_at=amphora.created_at * 1000)


@caught_by('test_an_active_instance_has_no_fault')
class FindsFaultWithAll(Describing):
    """Describes a fault that does not exist."""

    def describe(self, amphora):
        return dataclasses.replace(amphora, fault='none')


@caught_by(
    'test_states_are_members_of_the_state_enum', 'test_each_fact_has_the_type_of_the_contract'
)
class SpeaksItsOwnLanguage(MinimalAnimal):
    """Answers in the backend's words."""

    def get_amphora(self, amphora_name=None, amphora_id=None):
        amphora = super().get_amphora(amphora_name, amphora_id)
        return dataclasses.replace(amphora, state=str(amphora.state.value))


@caught_by('test_raw_answers_are_plain_data')
class ReturnsObjects(Describing):
    """Hands out what its client library made."""

    def describe(self, amphora):
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC)
        return dataclasses.replace(amphora, raw={'created': moment})


@caught_by('test_changing_a_returned_value_changes_nothing_in_the_backend')
class ReturnsItsOwnRecord(Describing):
    """Hands out the record that it keeps itself."""

    def __init__(self):
        super().__init__()
        self._records = {}

    def describe(self, amphora):
        record = self._records.setdefault(amphora.id, {'id': amphora.id, 'links': []})
        return dataclasses.replace(amphora, raw=record)


class VendorAmphora(Amphora):
    """An amphora with more to it."""


@caught_by(
    'test_an_instance_is_an_amphora_of_the_contract',
    'test_a_list_consists_of_values_of_the_contract',
)
class ReturnsItsOwnKind(Describing):
    """Returns values of a class of its own."""

    def describe(self, amphora):
        facts = {one.name: getattr(amphora, one.name) for one in dataclasses.fields(amphora)}
        return VendorAmphora(**facts)


@caught_by(
    'test_suspending_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
    'test_each_ability_the_driver_has_is_answered',
)
class RaisesItsOwnErrors(NoopAnimal):
    """Lets an error of its client library through."""

    def _suspend(self, amphora_id):
        try:
            super()._suspend(amphora_id)
        except InstanceNotFoundError:
            raise KeyError(amphora_id) from None


@caught_by('test_an_error_survives_pickling')
class RaisesWhatCannotTravel(Missing):
    """Raises errors that hold on to a lock."""

    def lament(self, error):
        error.held = threading.Lock()
        return error


@caught_by(
    'test_an_error_names_its_subject',
    'test_an_id_that_the_backend_has_not_returned_is_not_found',
)
class RaisesWithoutSubject(Missing):
    """Says that something is not found, and not what."""

    def lament(self, error):
        return InstanceNotFoundError('Not found.')


@caught_by('test_not_found_says_that_the_backend_is_well_and_did_nothing')
class ThinksItMayCome(Missing):
    """Has its callers ask again for what is not there."""

    def lament(self, error):
        return InstanceNotFoundError(str(error), amphora_id=error.amphora_id, retryable=True)


@caught_by('test_the_advice_of_an_error_agrees_with_its_other_facts')
class ContradictsItself(Missing):
    """Advises to wait for what it says no repeat can bring."""

    def lament(self, error):
        error.advice = Advice.WAIT
        return error


@caught_by(
    'test_each_ability_the_driver_has_is_answered',
    'test_an_unknown_zone_is_refused_as_a_build_would_refuse_it',
    'test_the_zone_of_an_instance_is_valid',
)
class DeclaresWhatItLacks(NoopAnimal):
    """Overrides a hook only to say that it cannot."""

    def _validate_zone(self, availability_zone):
        raise UnsupportedOperation('No zones here.')


@caught_by(
    'test_each_ability_the_driver_lacks_is_refused',
    'test_an_unknown_zone_is_refused_as_a_build_would_refuse_it',
    'test_the_zone_of_an_instance_is_valid',
)
class LacksInSilence(MinimalAnimal):
    """Does nothing where it can do nothing, and says nothing of it."""

    def validate_zone(self, availability_zone):
        return None


@caught_by('test_capabilities_stay_the_same')
class LearnsAsItGoes(NoopAnimal):
    """Finds out what it can do while it does it."""

    def __init__(self):
        super().__init__()
        self.missing_abilities = frozenset({Ability.VALIDATE_ZONE})

    def _build(self, request):
        self.missing_abilities = frozenset()
        return super()._build(request)


@caught_by('test_a_refusal_is_known_in_advance')
class ForetellsNothing(MinimalAnimal):
    """Says beforehand that it will refuse nothing."""

    def refusal(self, call):
        return None


@caught_by('test_public_methods_have_the_signatures_of_the_contract')
class TakesTimeoutsByPosition(MinimalAnimal):
    """Has arguments in another order than the contract."""

    def delete(self, amphora_id, timeout=None):
        super().delete(amphora_id, timeout=timeout)


@caught_by('test_hooks_have_the_signatures_of_the_contract')
class CallsItsArgumentsOtherwise(MinimalAnimal):
    """Has a hook whose argument has another name."""

    def _get(self, instance_id):
        return super()._get(instance_id)


@caught_by('test_the_driver_is_written_for_this_contract')
class IsOfAnotherTime(MinimalAnimal):
    """Was written for an older contract."""

    contract_version = 0


@caught_by('test_closing_again_does_no_harm')
class ClosesOnce(MinimalAnimal):
    """Cannot be closed when it is closed."""

    def __init__(self):
        super().__init__()
        self._sessions = ['the only one']

    def close(self):
        self._sessions.pop()


class VendorStatus(ComputeStatus):
    """A status with more to it."""


@caught_by('test_a_status_is_a_value_of_the_contract')
class ReturnsItsOwnStatus(MinimalAnimal):
    """Returns a status of a class of its own."""

    def _status(self, amphora_id):
        status = super()._status(amphora_id)
        return VendorStatus(**{name: getattr(status, name) for name in STATUS_FACTS})


STATUS_FACTS = tuple(one.name for one in dataclasses.fields(ComputeStatus))


@caught_by(
    'test_addresses_are_values_of_the_contract',
    'test_addresses_come_in_one_order_and_by_port',
    'test_each_fact_has_the_type_of_the_contract',
)
class ReturnsAddressesAsText(Describing):
    """Returns bare addresses."""

    def describe(self, amphora):
        return dataclasses.replace(amphora, addresses=('192.0.2.1',))


@caught_by('test_capabilities_name_the_driver')
class HasTwoNames(MinimalAnimal):
    """Calls itself by the name of its product."""

    def capabilities(self):
        return dataclasses.replace(super().capabilities(), driver='Acme Cloud')


@caught_by('test_capabilities_list_the_abilities')
class BoastsOfMore(MinimalAnimal):
    """Tells of an ability that it does not have."""

    def capabilities(self):
        return dataclasses.replace(super().capabilities(), abilities=frozenset({Ability.SUSPEND}))


@caught_by('test_an_error_is_plain_data_on_request')
class RaisesObjects(Missing):
    """Raises errors that carry what its client library made."""

    def lament(self, error):
        error.request_id = datetime.datetime.fromtimestamp(0, datetime.UTC)
        return error


@caught_by('test_an_error_names_its_backend_and_operation')
class BlamesOthers(Missing):
    """Raises errors that name another backend."""

    def lament(self, error):
        error.backend = 'elsewhere'
        return error


@caught_by('test_each_call_about_an_unknown_instance_raises_the_same_error')
class LosesTheSubject(NoopAnimal):
    """Names an instance only in the text of an error."""

    def _suspend(self, amphora_id):
        try:
            super()._suspend(amphora_id)
        except InstanceNotFoundError as exc:
            raise InstanceNotFoundError(str(exc)) from exc


@caught_by('test_each_fact_has_the_type_of_the_contract')
class CallsServedByName(Describing):
    """Answers by words where the contract has a truth value."""

    def describe(self, amphora):
        return dataclasses.replace(amphora, served='yes')
