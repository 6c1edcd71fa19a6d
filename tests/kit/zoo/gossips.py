"""Animals that tell a secret: in a log, in an answer, in an error."""

import base64
import dataclasses
import functools
import gzip
import logging
import types

from oslo_config import cfg

from kiln.exceptions import (
    BuildDiffers,
    BuildOutcomeUnknown,
    InsufficientCapacity,
    InvalidBuildRequest,
    QuotaExceeded,
)
from tests.kit.zoo.species import MinimalAnimal, NoopAnimal, caught_by

LOG = logging.getLogger(__name__)


@caught_by('test_no_secret_is_logged')
class LogsWhatItBuilds(NoopAnimal):
    """Writes the whole request into the log."""

    def _build(self, request):
        LOG.debug('Building %s with %s', request.name, request.user_data)
        return super()._build(request)


@caught_by(
    'test_no_secret_is_shown_by_what_is_returned',
    'test_all_that_is_requested_together_is_found_again',
)
class ShowsUserData(NoopAnimal):
    """Shows with an instance what it was started with."""

    def _build(self, request):
        shown = (request.user_data or b'').decode('utf-8', 'replace')[:200]
        metadata = {**request.metadata, 'started-with': shown} if shown else request.metadata
        return super()._build(dataclasses.replace(request, metadata=metadata))


@caught_by('test_no_secret_is_in_the_error_of_a_refused_build')
class QuotesUserData(MinimalAnimal):
    """Quotes what it was given when it refuses it."""

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        try:
            return super().build(*args, **given)
        except InvalidBuildRequest as exc:
            quoted = str(given.get('user_data'))[:200]
            raise type(exc)(f'{exc} It was {quoted!r}.') from None


@caught_by('test_no_secret_is_in_the_error_of_a_failed_build')
class QuotesWhatItLost(NoopAnimal):
    """Quotes what it sent where no answer came."""

    def perform(self, call, *args):
        try:
            return super().perform(call, *args)
        except BuildOutcomeUnknown as exc:
            raise BuildOutcomeUnknown(
                f'{exc} It was {args[0].user_data!r}.', build_key=exc.build_key
            ) from exc


@caught_by('test_no_secret_is_logged')
class LogsEncodedUserData(NoopAnimal):
    """Writes what it sends into the log, as it is sent."""

    def _build(self, request):
        packed = gzip.compress(request.user_data or b'')
        LOG.debug('POST /machines {"user_data": "%s"}', base64.b64encode(packed).decode())
        return super()._build(request)


@caught_by('test_no_secret_is_shown_by_what_is_returned')
class ReturnsWhatItSent(NoopAnimal):
    """Returns with an answer the request that it belongs to."""

    def _build(self, request):
        amphora_id = super()._build(request)
        self.sent[amphora_id] = base64.b64encode(request.user_data or b'').decode()
        return amphora_id

    def __init__(self):
        super().__init__()
        self.sent = {}

    def _get(self, amphora_id):
        amphora = super()._get(amphora_id)
        sent = {'user_data': self.sent.get(amphora_id, '')}
        return dataclasses.replace(amphora, raw={**amphora.raw, **sent})


@caught_by('test_no_secret_is_in_the_error_of_a_key_that_built_something_else')
class QuotesWhatDiffers(NoopAnimal):
    """Quotes both requests where they differ."""

    def perform(self, call, *args):
        try:
            return super().perform(call, *args)
        except BuildDiffers as exc:
            exc.args = (f'{exc} {(args[0].user_data or b"").hex()}',)
            raise


@caught_by('test_no_secret_is_in_the_error_of_a_failed_build')
class QuotesInItsCause(NoopAnimal):
    """Raises an error whose cause quotes the request."""

    def perform(self, call, *args):
        try:
            return super().perform(call, *args)
        except BuildOutcomeUnknown as exc:
            raise exc from ValueError(f'no answer to {args[0].user_data!r}')


@caught_by('test_no_secret_is_in_the_error_of_a_build_that_the_backend_refuses')
class QuotesWhatIsTooMuch(NoopAnimal):
    """Quotes what it sent where the backend refuses it because of its quota."""

    def _build(self, request):
        try:
            return super()._build(request)
        except QuotaExceeded as exc:
            # kiln itself masks the forms of a content that it knows.
            sent = base64.b64encode(gzip.compress(request.user_data or b'')).decode()
            raise QuotaExceeded(f'{exc} It was {sent}.', build_key=exc.build_key) from exc


class Trusted(NoopAnimal):
    """Has a token, which the site has set."""

    options = (cfg.StrOpt('token', secret=True, help='Token for the API.'),)
    opened_with = types.SimpleNamespace(token='hush-hush-token-4711')  # no real one


@caught_by('test_no_secret_is_logged')
class LogsItsToken(Trusted):
    """Writes its token into the log with each read."""

    def _get(self, amphora_id):
        LOG.debug('GET /machines/%s with %s', amphora_id, self.opened_with.token)
        return super()._get(amphora_id)


@caught_by('test_no_secret_is_in_the_error_of_a_build_that_the_backend_refuses')
class QuotesItsToken(Trusted):
    """Quotes the headers that it sent where the backend refuses a build."""

    def _build(self, request):
        try:
            return super()._build(request)
        except InsufficientCapacity as exc:
            raise InsufficientCapacity(
                f'{exc} Sent: {self.opened_with.token}', build_key=exc.build_key
            ) from exc


@caught_by('test_no_secret_is_shown_by_what_is_returned')
class ReturnsItsToken(Trusted):
    """Returns with each amphora what it authenticated with."""

    def _get(self, amphora_id):
        amphora = super()._get(amphora_id)
        sent = {'headers': f'Authorization: {self.opened_with.token}'}
        return dataclasses.replace(amphora, raw={**amphora.raw, **sent})
