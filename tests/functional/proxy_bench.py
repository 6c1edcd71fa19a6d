"""A bench that makes a real backend fail, by a proxy in front of it."""

import contextlib
from collections.abc import Mapping

from kiln.compute_drivers.calls import Call
from kiln.testing.conformance import Bench
from kiln.testing.proxy import Answer, Hang, LoseAnswer, html_page


class ProxyBench(Bench):
    """Lets one request fail at a time; a subclass maps each call to a request."""

    #: Method and path of the request that each call makes.
    requests: Mapping[Call, tuple[str, str]]

    def __init__(self, driver, case):
        super().__init__(driver)
        self.case = case

    def refuse(self, call):
        # After a 503 the outcome of a build is unknown; after a foreign 404 page it is not.
        self.fail_next(call, html_page(404) if call is Call.BUILD else self.unavailable())

    def misroute(self, call):
        self.fail_next(call, html_page(404))

    def lose_answer(self, call):
        self.fail_next(call, LoseAnswer(Answer(502)))

    def fall_silent(self, call):
        self.fail_next(call, Hang())

    @contextlib.contextmanager
    def outage(self):
        rule = self.case.proxy.fault(Hang())
        try:
            yield
        finally:
            rule.remove()

    def limit_rate(self, call, retry_after):
        self.fail_next(call, self.slow_down(retry_after))

    def unavailable(self):
        """Return the answer of a backend that is unavailable."""
        return Answer(503)

    def slow_down(self, retry_after):
        """Return the answer of a backend that limits the rate."""
        return Answer(429, retry_after=retry_after)

    def fail_next(self, call, fault):
        """Let the next request of a call fail."""
        self.case.proxy.fault(fault, *self.requests[call], times=1)
