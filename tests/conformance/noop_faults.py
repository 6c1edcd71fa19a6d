"""The simulated cloud, made to fail as the kit asks."""

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.faults import Fault
from kiln.testing.conformance import Faults


class NoopFaults(Faults):
    """Scripts the faults of one Noop cloud."""

    def __init__(self, cloud: NoopCloud):
        self._cloud = cloud

    def refuse(self, call):
        self._next(call.label, 'refuse')

    def lose_answer(self, call):
        self._next(call.label, 'lose_answer')

    def limit_rate(self, call, retry_after):
        self._next(call.label, 'rate_limit', retry_after=retry_after)

    def exhaust_quota(self):
        self._next('build', 'quota')

    def exhaust_capacity(self):
        self._next('build', 'capacity')

    def fail_build(self, text):
        self._next('build', 'error', text=text)

    def stall_build(self):
        self._next('build', 'stuck')

    def vanish(self, amphora_id):
        self._cloud.vanish(amphora_id)

    def _next(self, call, action, **facts):
        self._cloud.faults.add(Fault(call=call, action=action, times=1, **facts))
