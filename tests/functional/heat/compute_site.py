"""A kiln site whose amphorae are stacks of the real Heat, behind a proxy."""

import json
import uuid
from types import MappingProxyType

from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.heat.driver import StackDriver
from kiln.testing.proxy import Answer
from tests.functional.nova.site import Knob, NovaCase
from tests.functional.proxy_bench import ProxyBench

_LIST = ('GET', '/stacks')
_REQUESTS = {
    Call.BUILD: ('POST', '/stacks'),
    Call.DELETE: ('DELETE', r'/stacks/[^/]+/[0-9a-f-]{36}'),
    **dict.fromkeys(
        (
            Call.GET, Call.STATUS, Call.LIST, Call.FIND, Call.FIND_BUILD, Call.CHANGES,
            Call.STATUSES,
        ),
        _LIST,
    ),
}  # fmt: skip
_HEAT = {'endpoint_filter': {'service_type': 'orchestration'}}


def heat_error(status, message='', kind='', **more):
    """Return an error in the format of Heat."""
    error = {'type': kind or 'Exception', 'message': message or 'no reason', 'traceback': None}
    body = {'code': status, 'title': 'Error', 'explanation': '', 'error': error}
    return Answer(status, json.dumps(body), **more)


class HeatCase(NovaCase):
    """Drivers of one project, which all reach Heat through one proxy."""

    services = ('heat',)
    driver_class = StackDriver
    proxied = 'orchestration'

    @classmethod
    def stack_list(cls, **query):
        """Return stacks, without the proxy."""
        return cls.session.get('/stacks', params=query, **_HEAT).json()['stacks']

    def own_stacks(self):
        return self.stack_list(tags=f'kiln-site:{self.owner}')

    def make_stack(self, name):
        """Make a stack that is not kiln's; return its id."""
        template = {
            'heat_template_version': '2018-08-31',
            'resources': {'one': {'type': 'OS::Heat::RandomString'}},
        }
        body = {'stack_name': name, 'template': template}
        made = self.session.post('/stacks', json=body, **_HEAT).json()['stack']['id']
        self.addCleanup(self.remove_stack, made)
        return made

    @classmethod
    def remove_stack(cls, id_):
        for row in cls.stack_list(id=id_):
            path = f'/stacks/{row["stack_name"]}/{row["id"]}'
            cls.session.delete(path, raise_exc=False, **_HEAT)

    def server_of(self, amphora_id):
        """Return the server of an amphora, without the proxy."""
        (server,) = self.list('compute', 'servers/detail', tags=f'kiln-stack:{amphora_id}')
        return server

    def new_owner(self):
        return f't-{uuid.uuid4().hex[:8]}'


class RealStackBench(ProxyBench):
    """Makes the real Heat fail: by the proxy in front of it, and by knobs of the hypervisor."""

    requests = _REQUESTS
    fault_codes = MappingProxyType(
        {'No valid host was found.': 'insufficient_capacity', 'Quota exceeded.': 'quota_exceeded'}
    )

    def unavailable(self):
        return heat_error(503)

    def slow_down(self, retry_after):
        return heat_error(429, retry_after=retry_after)

    def exhaust_quota(self):
        said = 'You have reached the maximum stacks per project, 512. Please delete some stacks.'
        self.fail_next(Call.BUILD, heat_error(400, said, 'RequestLimitExceeded'))

    def fail_build(self, text):
        self.fail_next(Call.BUILD, Knob('spawn_abort', text, 'parameters'))

    def stall_build(self):
        self.fail_next(Call.BUILD, Knob('spawn_delay', '20', 'parameters'))

    def vanish(self, amphora_id):
        self.case.remove_stack(amphora_id)
