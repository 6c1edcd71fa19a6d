"""A bench that makes a real backend fail, by the proxy before it."""

from collections.abc import Mapping

from kiln.compute_drivers.calls import Call
from kiln.testing.conformance import Bench
from kiln.testing.proxy import Answer, LoseAnswer, html_page


class ProxyBench(Bench):
    """Has one request go wrong at a time; a backend says which request makes a call."""

    #: Method and path of the request that each call makes.
    requests: Mapping[Call, tuple[str, str]]

    def __init__(self, driver, case):
        super().__init__(driver)
        self.case = case

    def refuse(self, call):
        # After a 503 a build is of unknown outcome; a page of somebody else's is not.
        self.fail_next(call, html_page(404) if call is Call.BUILD else self.unavailable())

    def lose_answer(self, call):
        self.fail_next(call, LoseAnswer(Answer(502)))

    def limit_rate(self, call, retry_after):
        self.fail_next(call, self.slow_down(retry_after))

    def unavailable(self):
        """Return what the backend answers that cannot serve now."""
        return Answer(503)

    def slow_down(self, retry_after):
        """Return what the backend answers that is asked too often."""
        return Answer(429, retry_after=retry_after)

    def fail_next(self, call, fault):
        """Have the next request of a call go wrong."""
        self.case.proxy.fault(fault, *self.requests[call], times=1)
