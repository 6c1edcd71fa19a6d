"""Animals with defects that show only when the backend fails."""

import contextlib
import contextvars
import dataclasses
from types import MappingProxyType

from kiln.exceptions import (
    Advice,
    AmphoraBuildError,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    InstanceNotFoundError,
    InsufficientCapacity,
    QuotaExceeded,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.models import State
from tests.kit.zoo.species import NO_ADDRESS, PLACED, NoopAnimal, caught_by

#: Behaviours of calls in an outage, and of what was built before it and in it.
OUTAGES = (
    'test_a_call_in_an_outage_ends_by_its_deadline_and_can_be_repeated',
    'test_what_was_built_before_an_outage_is_there_after_it',
    'test_a_build_and_a_delete_in_an_outage_can_be_repeated_after_it',
)


class Failing(NoopAnimal):
    """Raises its own error type for a failed build."""

    def lament(self, error, request):
        raise NotImplementedError

    def _build(self, request):
        try:
            return super()._build(request)
        except (AmphoraBuildError, RateLimited, ServiceUnavailable) as exc:
            return self.lament(exc, request)


@caught_by(
    'test_a_build_that_says_nothing_was_done_has_left_nothing',
    'test_a_refused_build_gives_its_ports_back',
    'test_a_refused_build_leaves_no_resource_behind',
)
class LeaksOnFailure(Failing):
    """Reports that nothing was built, but leaves an instance."""

    def lament(self, error, request):
        if isinstance(error, ServiceUnavailable):
            super()._build(request)
        raise error


@caught_by(
    'test_a_build_whose_answer_was_lost_says_so_and_names_its_key',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
    'test_a_build_whose_answer_was_lost_advises_repeating_it',
)
class TakesSilenceForNo(Failing):
    """Reports a lost answer as a refusal."""

    def lament(self, error, request):
        if isinstance(error, BuildOutcomeUnknown):
            raise ServiceUnavailable('Cannot build: the cloud is silent.')
        raise error


@caught_by('test_a_build_whose_answer_was_lost_advises_repeating_it')
class TakesLossForFailure(Failing):
    """Advises waiting after a lost answer, instead of repeating the build."""

    def lament(self, error, request):
        if isinstance(error, BuildOutcomeUnknown):
            error.advice = Advice.WAIT
        raise error


@caught_by(
    'test_a_build_whose_answer_was_lost_says_so_and_names_its_key',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
)
class ForgetsWhatItAsked(Failing):
    """Does not name the build whose answer was lost."""

    def lament(self, error, request):
        if isinstance(error, BuildOutcomeUnknown):
            raise BuildOutcomeUnknown('Cannot say what became of a build.')
        raise error


@caught_by(
    'test_a_refused_build_says_that_nothing_was_done',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
)
class KnowsNoOutcome(Failing):
    """Reports the outcome of a refusal as unknown."""

    def lament(self, error, request):
        if isinstance(error, ServiceUnavailable):
            raise AmphoraComputeError(f'Cannot build {request.name}: refused.')
        raise error


@caught_by(
    'test_a_refused_build_says_that_nothing_was_done',
    'test_a_build_that_says_nothing_was_done_has_left_nothing',
    'test_a_refused_build_can_be_repeated',
    'test_a_refused_build_gives_its_ports_back',
    'test_a_refused_build_leaves_no_resource_behind',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
    'test_no_secret_is_in_the_error_of_a_failed_build',
)
class SwallowsRefusals(Failing):
    """Returns an id as if the build had not failed."""

    def lament(self, error, request):
        if isinstance(error, ServiceUnavailable):
            return 'to-be-built-some-day'
        raise error


@caught_by(
    'test_a_rate_limit_says_when_to_retry',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
)
class DoesNotSayWhen(Failing):
    """Reports a rate limit without the time to retry after."""

    def lament(self, error, request):
        if isinstance(error, RateLimited):
            raise RateLimited(f'Cannot build {request.name}: too many requests.')
        raise error


@caught_by(
    'test_an_exhausted_quota_differs_from_other_failures',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
)
class KnowsNoQuota(Failing):
    """Raises the same error for every refusal of the backend."""

    def lament(self, error, request):
        if isinstance(error, QuotaExceeded):
            raise AmphoraBuildError(str(error))
        raise error


@caught_by(
    'test_a_lack_of_capacity_differs_from_other_failures',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
    'test_members_of_an_anti_affinity_group_have_distinct_hosts',
)
class TakesRoomForQuota(Failing):
    """Reports a full cloud as an exhausted quota."""

    def lament(self, error, request):
        if isinstance(error, InsufficientCapacity):
            raise QuotaExceeded(str(error))
        raise error


@caught_by(
    'test_a_build_whose_answer_was_lost_is_found_by_its_key',
    'test_another_driver_finds_what_one_has_built_by_name_and_key',
    'test_a_claimed_instance_is_found_by_its_key_and_by_its_name',
    'test_a_claim_whose_answer_was_lost_can_be_repeated',
)
class FindsOnlyWhatItHeardOf(NoopAnimal):
    """Finds by key in its own memory, and not in the backend."""

    def __init__(self):
        super().__init__()
        self._heard = set()

    def _build(self, request):
        amphora_id = super()._build(request)
        self._heard.add(request.build_key)
        return amphora_id

    def _find_build(self, build_key):
        return super()._find_build(build_key) if build_key in self._heard else None


@caught_by('test_a_refused_delete_of_a_resource_says_so_and_leaves_it')
class SwallowsErrorsOfResources(NoopAnimal):
    """Reports every delete of a resource as done."""

    def _delete_resource(self, resource):
        with contextlib.suppress(AmphoraComputeError):
            super()._delete_resource(resource)


@caught_by('test_instances_that_do_not_come_up_can_be_deleted_in_any_order')
class DeletesInTurn(NoopAnimal):
    """Leaves an instance that does not come up while an older one does not either."""

    def __init__(self):
        super().__init__()
        self._stuck = []

    def _build(self, request):
        stalls = bool(self.cloud.faults)
        amphora_id = super()._build(request)
        if stalls and amphora_id not in self._stuck:
            self._stuck.append(amphora_id)
        return amphora_id

    def _delete(self, amphora_id):
        building = {one.id for one in super()._list(self.owner) if one.state is State.BUILDING}
        stuck = [one for one in self._stuck if one in building]
        if not (amphora_id in stuck and stuck[0] != amphora_id):
            super()._delete(amphora_id)


@caught_by(
    'test_a_refused_delete_says_so_and_leaves_the_instance',
    'test_a_call_ends_by_its_deadline_even_if_the_backend_is_silent',
)
class SwallowsErrorsOfDeletes(NoopAnimal):
    """Reports every delete as done."""

    def _delete(self, amphora_id):
        try:
            super()._delete(amphora_id)
        except AmphoraComputeError:
            return


@caught_by(
    'test_a_failing_backend_is_not_taken_for_a_deleted_instance',
    'test_the_error_of_a_failing_call_names_its_instance',
)
class TakesFailureForGone(NoopAnimal):
    """Reports a failing backend as "not found"."""

    def _status(self, amphora_id):
        try:
            return super()._status(amphora_id)
        except ServiceUnavailable as exc:
            raise InstanceNotFoundError(f'Cannot find {amphora_id}.') from exc


@caught_by('test_a_failing_backend_is_not_taken_for_an_empty_one')
class ListsNothingWhereItFails(NoopAnimal):
    """Returns an empty list when the list fails."""

    def _list(self, owner):
        try:
            return super()._list(owner)
        except ServiceUnavailable:
            return []


@caught_by('test_a_failing_backend_is_not_taken_for_one_without_the_key')
class FindsNothingWhereItFails(NoopAnimal):
    """Reports that a key has no instance when the backend cannot be read."""

    def _find_build(self, build_key):
        try:
            return super()._find_build(build_key)
        except ServiceUnavailable:
            return None


class Instant(NoopAnimal):
    """Base of animals on a cloud without latencies."""

    cloud_options = MappingProxyType({})


@caught_by('test_an_instance_that_does_not_come_up_is_not_reported_active')
class CallsAllActive(Instant):
    """Reports an instance as active as soon as its build was accepted."""

    def _status(self, amphora_id):
        status = super()._status(amphora_id)
        if status.state is not State.BUILDING:
            return status
        return dataclasses.replace(status, state=State.ACTIVE, task_state=None)


@caught_by(
    'test_a_build_that_fails_later_ends_in_error_with_its_reason',
    'test_an_instance_in_error_is_listed',
    'test_an_instance_in_error_can_be_deleted',
    'test_the_ports_of_an_instance_in_error_are_free_when_it_is_deleted',
    'test_a_build_that_fails_later_has_the_code_of_its_reason',
)
class HidesErrors(Instant):
    """Does not report the error state."""

    def _status(self, amphora_id):
        status = super()._status(amphora_id)
        if status.state is not State.ERROR:
            return status
        return dataclasses.replace(status, state=State.UNKNOWN)


@caught_by('test_a_build_that_fails_later_ends_in_error_with_its_reason')
class KeepsReasonsToItself(NoopAnimal):
    """Reports the error state of an instance without its fault."""

    def _status(self, amphora_id):
        return dataclasses.replace(super()._status(amphora_id), fault=None)


@caught_by('test_a_health_check_fails_while_the_backend_cannot_be_used')
class ChecksTheRequestOnly(NoopAnimal):
    """Reports a backend that cannot be used as a wrong request."""

    def _check(self):
        try:
            return super()._check()
        except ServiceUnavailable as exc:
            raise InstanceNotFoundError(str(exc)) from exc


@caught_by(
    'test_a_key_that_built_something_else_is_refused',
    'test_a_build_whose_answer_was_lost_says_so_and_names_its_key',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_a_flavor_is_reported_as_it_was_given_or_refused',
    'test_a_server_group_is_reported_as_it_was_given_or_refused',
    'test_a_zone_is_reported_as_it_was_given_or_refused',
    'test_a_server_group_exists_until_it_is_deleted',
    *PLACED[1:],
    NO_ADDRESS,
)
class NamesNoBuild(Failing):
    """Does not name the build that was refused."""

    def lament(self, error, request):
        error.build_key = None
        raise error


@caught_by('test_the_error_of_a_failing_call_names_its_instance')
class FailsWithoutSubject(NoopAnimal):
    """Does not name the instance of a failed call as data."""

    def perform(self, call, *args):
        try:
            return super().perform(call, *args)
        except ServiceUnavailable as exc:
            exc.amphora_id = None
            raise


@caught_by(
    'test_a_refused_delete_says_so_and_leaves_the_instance',
    'test_the_error_of_a_failing_call_names_its_instance',
)
class CrashesWhereTheBackendFails(NoopAnimal):
    """Reads an answer that the backend did not give."""

    def _delete(self, amphora_id):
        try:
            super()._delete(amphora_id)
        except ServiceUnavailable as exc:
            raise TypeError('None is not subscriptable') from exc


@caught_by(
    'test_a_refused_build_says_that_nothing_was_done',
    'test_a_build_that_says_nothing_was_done_has_left_nothing',
    'test_a_refused_build_can_be_repeated',
    'test_a_refused_build_gives_its_ports_back',
    'test_a_refused_build_leaves_no_resource_behind',
    'test_the_error_of_each_failed_build_names_its_key_and_what_is_left',
    'test_no_secret_is_in_the_error_of_a_failed_build',
    'test_an_error_shows_the_error_of_the_client_behind_it',
)
class CrashesWhereABuildFails(Failing):
    """Reads the answer to a build that the backend did not give."""

    def lament(self, error, request):
        if isinstance(error, ServiceUnavailable):
            raise TypeError('None is not subscriptable') from error
        raise error


class Coding(NoopAnimal):
    """Reports the codes of faults in its own way."""

    def coded(self, seen):
        raise NotImplementedError

    def _get(self, amphora_id):
        return self.coded(super()._get(amphora_id))

    def _status(self, amphora_id):
        return self.coded(super()._status(amphora_id))


@caught_by('test_a_build_that_fails_later_has_the_code_of_its_reason')
class KnowsNoCodes(Coding):
    """Reports a fault without its code."""

    def coded(self, seen):
        return dataclasses.replace(seen, fault_code=None)


@caught_by(
    'test_a_build_that_fails_later_ends_in_error_with_its_reason',
    'test_a_build_that_fails_later_has_the_code_of_its_reason',
)
class TakesEachFaultForALackOfRoom(Coding):
    """Has one code for all faults."""

    def coded(self, seen):
        code = seen.fault and InsufficientCapacity.code
        return dataclasses.replace(seen, fault_code=code)


@caught_by('test_a_build_that_fails_later_has_the_code_of_its_reason')
class DescribesNoCodes(NoopAnimal):
    """Reports the code of a fault in a status, and not in a description."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), fault_code=None)


@caught_by('test_a_call_ends_by_its_deadline_even_if_the_backend_is_silent', *OUTAGES)
class WaitsForEver(NoopAnimal):
    """Waits for its backend without regard to the deadline of a call."""

    def perform(self, call, *args):
        # Without the variable that has the deadline.
        return contextvars.Context().run(super().perform, call, *args)


@caught_by(OUTAGES[0])
class GivesUpInAnOutage(NoopAnimal):
    """Says that what was not answered once will not be answered at all."""

    def _list(self, owner):
        try:
            return super()._list(owner)
        except ServiceTimeout as exc:
            raise ServiceTimeout(f'Cannot list: {exc}', retryable=False) from exc


@caught_by(OUTAGES[1])
class StaysSilent(NoopAnimal):
    """Waits for the answer to a list that was lost before it asks for another."""

    def __init__(self):
        super().__init__()
        self._lost = None

    def _list(self, owner):
        if self._lost is not None:
            raise self._lost
        try:
            return super()._list(owner)
        except ServiceTimeout as exc:
            self._lost = exc
            raise


@caught_by(OUTAGES[1])
class ForgetsWhatWasSilent(NoopAnimal):
    """Lists no more what could not be read once."""

    def __init__(self):
        super().__init__()
        self._silent = set()

    def _status(self, amphora_id):
        try:
            return super()._status(amphora_id)
        except ServiceTimeout:
            self._silent.add(amphora_id)
            raise

    def _list(self, owner):
        return [one for one in super()._list(owner) if one.id not in self._silent]


@caught_by(OUTAGES[2])
class TakesADeleteForDone(NoopAnimal):
    """Sends a delete once, whatever becomes of it."""

    def __init__(self):
        super().__init__()
        self._sent = set()

    def _delete(self, amphora_id):
        if amphora_id not in self._sent:
            self._sent.add(amphora_id)
            super()._delete(amphora_id)
