"""What the conformance kit tries the driver with; nothing else imports it.

The faults are raised where your client would raise them, so they show on a
real backend what they show here: that the driver draws the right conclusions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kiln.compute_drivers.calls import Call
from kiln.testing.conformance import Bench

from kiln_elder import client
from kiln_elder.driver import ElderDriver

#: The method of the client that serves each of kiln's calls.
METHODS = {
    Call.BUILD: 'create',
    Call.DELETE: 'destroy',
    Call.GET: 'show',
    Call.STATUS: 'show',
    Call.LIST: 'search',
    Call.FIND_BUILD: 'search',
}


class FailingClient:
    """A client whose next call of a method fails, before it is made or after."""

    def __init__(self, inner: client.Client) -> None:
        self._inner = inner
        self._before: dict[str, client.ClientError] = {}
        self._after: dict[str, client.ClientError] = {}

    def fail(self, call: Call, error: client.ClientError, *, after: bool = False) -> None:
        """Have the next such call raise an error; with ``after``, once it was served."""
        (self._after if after else self._before)[METHODS[call]] = error

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if error := self._before.pop(name, None):
                raise error
            result = getattr(self._inner, name)(*args, **kwargs)
            if error := self._after.pop(name, None):
                raise error
            return result

        return call


class ElderBench(Bench):
    """Lays out what Elder has, and makes it fail."""

    # What every build needs on your backend, and what there is to attach:
    # build_arguments = {'amphora_flavor': 'small', 'image_id': 'debian-13'}
    # port_ids = ['port-1']
    # network_ids = ['net-1']

    def __init__(self, driver: ElderDriver) -> None:
        super().__init__(driver)
        self._client = driver.client
        self._failing = FailingClient(driver.client)
        driver.client = cast('client.Client', self._failing)

    def refuse(self, call: Call) -> None:
        """Reach nobody."""
        self._failing.fail(call, client.UnreachableError())

    def lose_answer(self, call: Call) -> None:
        """Do it, and lose the answer."""
        self._failing.fail(call, client.AnswerLostError(), after=True)

    def limit_rate(self, call: Call, retry_after: float) -> None:
        """Refuse it as one too many."""
        self._failing.fail(call, client.RefusedError(429, 'too many calls', retry_after))

    def exhaust_quota(self) -> None:
        """Let the project have no more."""
        self._failing.fail(Call.BUILD, client.RefusedError(402, 'quota used up'))

    def exhaust_capacity(self) -> None:
        """Have no room."""
        self._failing.fail(Call.BUILD, client.RefusedError(507, 'no room'))

    def vanish(self, amphora_id: str) -> None:
        """Remove a machine behind the driver's back."""
        self._client.destroy(amphora_id)

    # With a simulator of your backend, override fail_build() and stall_build()
    # too; until then the kit skips the behaviours that need them.
