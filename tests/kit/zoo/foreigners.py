"""Animals that misunderstand their backend: its refusals, states, errors and addresses."""

import contextlib
import dataclasses
from types import MappingProxyType

from oslo_config import cfg

from kiln.compute_drivers.authoring.bench import Refusal
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    PermissionDenied,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.models import Amphora, State
from kiln.testing.minimal_bench import MinimalBench
from tests.kit.zoo.failures import Failing
from tests.kit.zoo.species import MinimalAnimal, NoopAnimal, caught_by

BY_REASON = 'test_a_refusal_is_the_error_of_its_reason'
BY_STATE = 'test_a_state_of_the_backend_is_the_state_that_it_stands_for'

BY_PROXY = (
    'test_a_404_of_another_program_does_not_hide_an_instance',
    'test_a_404_of_another_program_does_not_stand_for_a_delete',
)
#: The 404 of a proxy, which is a page.
PAGE = 'page'

STATUSES = {
    Refusal.WRONG: 400,
    Refusal.NO_LOGIN: 401,
    Refusal.FORBIDDEN: 403,
    Refusal.UNKNOWN: 404,
    Refusal.CONFLICT: 409,
    Refusal.BROKEN: 500,
}


class RefusedError(Exception):
    """Answer of the backend, with its status."""


class ForeignBench(MinimalBench):
    """Has calls refused with a status, and brings instances into foreign states."""

    states = MappingProxyType({'läuft': State.ACTIVE, 'ruht': State.STOPPED, '?': State.UNKNOWN})

    def refuse_for(self, call, reason):
        self.driver.answers[call] = STATUSES[reason]
        return STATUSES[reason]

    def misroute(self, call):
        self.driver.answers[{Call.FIND_BUILD: Call.LIST}.get(call, call)] = PAGE

    def enter_state(self, amphora_id, state):
        self.driver.words[amphora_id] = state


class Foreign(MinimalAnimal):
    """Has a backend with statuses and words of its own."""

    bench = 'tests.kit.zoo.foreigners:ForeignBench'
    meanings = MappingProxyType(
        {
            400: InvalidRequest,
            401: AuthenticationFailed,
            403: PermissionDenied,
            404: InstanceNotFoundError,
            409: InstanceStateConflict,
            500: ServiceTimeout,
            PAGE: ServiceUnavailable,
        }
    )
    of_builds = MappingProxyType(
        {
            400: InvalidBuildRequest,
            404: InvalidBuildRequest,
            409: BuildConflict,
            500: BuildOutcomeUnknown,
        }
    )
    of_deletes = MappingProxyType({409: DeleteFailed})
    states = MappingProxyType({'läuft': State.ACTIVE, 'ruht': State.STOPPED})
    any_other = State.UNKNOWN

    def __init__(self):
        super().__init__()
        self.answers, self.words = {}, {}

    def ask(self, call):
        if status := self.answers.pop(call, None):
            raise RefusedError(status)

    @contextlib.contextmanager
    def translated(self, call, special, **subject):
        try:
            self.ask(call)
            yield
        except RefusedError as exc:
            (status,) = exc.args
            kind = special.get(status) or self.meanings[status]
            raise self.error(kind, call, status, **subject) from exc

    def error(self, kind, call, status, **subject):
        said = f'Cannot {call.label}: answer {status}.'
        return kind(said, http_status=404 if status is PAGE else status, **subject)

    def _build(self, request):
        with self.translated(Call.BUILD, self.of_builds, build_key=request.build_key):
            return super()._build(request)

    def _get(self, amphora_id):
        with self.translated(Call.GET, {}, amphora_id=amphora_id):
            found = super()._get(amphora_id)
        word = self.words.get(amphora_id, 'läuft')
        return dataclasses.replace(found, state=self.states.get(word, self.any_other))

    def _list(self, owner):
        with self.translated(Call.LIST, {}):
            return super()._list(owner)

    def _delete(self, amphora_id):
        with self.translated(Call.DELETE, self.of_deletes, amphora_id=amphora_id):
            super()._delete(amphora_id)


@caught_by(BY_REASON)
class TakesStrangersForWrongRequests(Foreign):
    """Reports credentials that are not known as a wrong request."""

    meanings = MappingProxyType({**Foreign.meanings, 401: InvalidRequest})


@caught_by(BY_REASON)
class TakesMissingImagesForMissingInstances(Foreign):
    """Reports an image that does not exist as an instance that does not."""

    of_builds = MappingProxyType({**Foreign.of_builds, 404: InstanceNotFoundError})


@caught_by(BY_REASON)
class TakesFailuresForRefusals(Foreign):
    """Reports that a build which failed in the backend was refused."""

    of_builds = MappingProxyType({**Foreign.of_builds, 500: InvalidBuildRequest})


@caught_by(BY_REASON)
class DeletesWhatIsBusy(Foreign):
    """Reports a delete that was refused as any other conflict."""

    of_deletes = MappingProxyType({})


@caught_by(BY_REASON)
class KeepsTheStatusToItself(Foreign):
    """Leaves the status of an answer out of the error."""

    def error(self, kind, call, status, **subject):
        return super().error(kind, call, None, **subject)


@caught_by(*BY_PROXY)
class TakesAProxyForItsBackend(Foreign):
    """Reports an instance as missing, even if another program says so."""

    meanings = MappingProxyType({**Foreign.meanings, PAGE: InstanceNotFoundError})


@caught_by(BY_PROXY[0])
class ListsNothingBehindAProxy(Foreign):
    """Takes a list that was not found for an empty one."""

    def _list(self, owner):
        with contextlib.suppress(ServiceUnavailable):
            return super()._list(owner)
        return []


@caught_by(BY_STATE)
class TakesUnknownForGone(Foreign):
    """Reports an instance in a state that it does not know as deleted."""

    any_other = State.DELETED


@caught_by(BY_STATE)
class KnowsOneState(Foreign):
    """Reports what it cannot name as unknown, although the contract has the state."""

    states = MappingProxyType({'läuft': State.ACTIVE})


@caught_by('test_an_error_shows_the_error_of_the_client_behind_it')
class HidesTheCause(Failing):
    """Raises its errors without those of the client."""

    def lament(self, error, request):
        facts = {name: getattr(error, name) for name in ('build_key', 'amphora_id', 'retry_after')}
        raise type(error)(str(error), **facts) from None


@caught_by(
    'test_a_delete_whose_answer_was_lost_says_so',
    'test_a_call_in_an_outage_ends_by_its_deadline_and_can_be_repeated',
)
class TakesALossForARefusal(NoopAnimal):
    """Reports a delete whose answer was lost as refused."""

    def _delete(self, amphora_id):
        try:
            super()._delete(amphora_id)
        except ServiceTimeout as exc:
            raise DeleteFailed(str(exc), amphora_id=amphora_id) from exc


@caught_by('test_an_option_for_a_secret_is_marked_as_one')
class ShowsItsPassword(MinimalAnimal):
    """Has its password written into the logs."""

    options = (cfg.StrOpt('password', help='Password of the user.'),)


class Forgetting(NoopAnimal):
    """Does not report a fact of addresses, which its backend knows."""

    fact = ''

    def perform(self, call, *args):
        found = super().perform(call, *args)
        if isinstance(found, list | tuple):
            return [self.without(one) for one in found]
        return self.without(found)

    def without(self, one):
        if not isinstance(one, Amphora):
            return one
        addresses = [dataclasses.replace(each, **{self.fact: None}) for each in one.addresses]
        return dataclasses.replace(one, addresses=tuple(addresses))


@caught_by(
    'test_the_ports_of_a_build_are_attached',
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_a_refused_delete_of_a_resource_says_so_and_leaves_it',
    'test_deleting_an_unused_resource_deletes_nothing_else',
)
class ForgetsPorts(Forgetting):
    """Does not report the ports of addresses."""

    fact = 'port_id'


@caught_by(
    'test_a_network_of_a_build_is_attached',
    'test_all_that_is_requested_together_is_found_again',
)
class ForgetsNetworks(Forgetting):
    """Does not report the networks of addresses."""

    fact = 'network_id'
