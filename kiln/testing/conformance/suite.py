"""All behaviours that can be shown on any driver, in one suite."""

from __future__ import annotations

from kiln.testing.conformance.abilities import Abilities
from kiln.testing.conformance.arguments import Arguments
from kiln.testing.conformance.building import Building
from kiln.testing.conformance.deleting import Deleting
from kiln.testing.conformance.errors import Errors
from kiln.testing.conformance.execution import Execution
from kiln.testing.conformance.files import Files
from kiln.testing.conformance.finding import Finding
from kiln.testing.conformance.groups import Groups
from kiln.testing.conformance.listing import Listing
from kiln.testing.conformance.offers import Offers
from kiln.testing.conformance.ports import Ports
from kiln.testing.conformance.repeating import Repeating
from kiln.testing.conformance.states import States
from kiln.testing.conformance.threads import Threads
from kiln.testing.conformance.values import Values
from kiln.testing.conformance.watching import Watching


class ComputeDriverConformance(
    Building,
    Repeating,
    Deleting,
    Finding,
    Listing,
    Watching,
    States,
    Execution,
    Ports,
    Groups,
    Offers,
    Arguments,
    Files,
    Errors,
    Threads,
    Values,
    Abilities,
):
    """Judges a compute driver; to be mixed into a TestCase that has ``make_driver``.

    An ability or an option that the driver lacks is not skipped: it is shown
    to be refused.
    """
