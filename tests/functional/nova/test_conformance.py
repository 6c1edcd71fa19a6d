"""The conformance kit on the real Nova, bare and with all that kiln can put around a driver."""

import os

from kiln.driver_manager import stack_settings
from kiln.stack import assemble
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.building import Building
from kiln.testing.conformance.deleting import Deleting
from kiln.testing.conformance.errors import Errors
from kiln.testing.conformance.execution import Execution
from kiln.testing.conformance.files import Files
from kiln.testing.conformance.finding import Finding
from kiln.testing.conformance.groups import Groups
from kiln.testing.conformance.listing import Listing
from kiln.testing.conformance.ports import Ports
from kiln.testing.conformance.repeating import Repeating
from kiln.testing.conformance.states import States
from kiln.testing.conformance.values import Values
from kiln.testing.conformance.watching import Watching
from tests.functional.nova.notify import notify
from tests.functional.nova.site import NovaBench, NovaCase


class OnNova:
    """Shows each behaviour that Nova has a way to show.

    Not shown, with the reason in the run's output: a build refused for lack of
    room, because Nova accepts it and fails it later (test_builds shows that).
    """

    timeout_s = 120.0
    soon_s = 60.0

    def setUp(self):
        self.network_ids = (self.net_id,)
        super().setUp()

    def pass_time(self, seconds):
        # A look costs Nova half of what a build does in that time.
        super().pass_time(max(seconds, 0.5))

    def port_id(self):
        # The fake hypervisor remembers where a port once hung, and refuses it
        # elsewhere: so each behaviour that needs a port has one of its own.
        return self.make_port()

    def make_driver(self):
        return self.open_driver(**self.more())

    def more(self):
        """Return options of the driver beside the usual ones."""
        return {}

    def make_faults(self, driver):
        return NovaBench(driver, self)


class Guarded(OnNova):
    """Through executor, circuits and all."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class Locked(OnNova):
    """With a port made as a lock for each build."""

    def more(self):
        return {**super().more(), 'port_lock': True}


class Listening(OnNova):
    """With Nova itself telling of its servers on the message bus."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = notify(cls.cloud)

    def more(self):
        return {**super().more(), 'notification_url': self.url}


class NovaConformance(
    OnNova, Building, Deleting, Errors, Execution, Files, Finding, Groups, Listing, Ports,
    Repeating, FaultConformance, NovaCase,
):  # fmt: skip
    """The driver as it is, for what Nova and its neighbours have a part in."""


class FullNovaConformance(
    Guarded, Locked, Listening, Building, States, Values, Watching, NovaCase
):
    """All three at once, for what of the contract each of them could break."""


# The whole kit for each takes ten minutes.
if os.environ.get('KILN_FULL'):

    class WholeNovaConformance(OnNova, ComputeDriverConformance, FaultConformance, NovaCase):
        pass

    class GuardedNovaConformance(Guarded, ComputeDriverConformance, FaultConformance, NovaCase):
        pass

    class LockedNovaConformance(Locked, ComputeDriverConformance, FaultConformance, NovaCase):
        pass

    class ListeningNovaConformance(
        Listening, Building, Deleting, Execution, States, Watching, NovaCase
    ):
        pass
