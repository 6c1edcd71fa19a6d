"""Conformance suite of compute drivers, without the fault behaviours."""

from __future__ import annotations

from kiln.testing.conformance.behaviours.abilities import Abilities
from kiln.testing.conformance.behaviours.arguments import Arguments
from kiln.testing.conformance.behaviours.building import Building
from kiln.testing.conformance.behaviours.deleting import Deleting
from kiln.testing.conformance.behaviours.errors import Errors
from kiln.testing.conformance.behaviours.execution import Execution
from kiln.testing.conformance.behaviours.files import Files
from kiln.testing.conformance.behaviours.finding import Finding
from kiln.testing.conformance.behaviours.groups import Groups
from kiln.testing.conformance.behaviours.listing import Listing
from kiln.testing.conformance.behaviours.offers import Offers
from kiln.testing.conformance.behaviours.ports import Ports
from kiln.testing.conformance.behaviours.repeating import Repeating
from kiln.testing.conformance.behaviours.states import States
from kiln.testing.conformance.behaviours.threads import Threads
from kiln.testing.conformance.behaviours.values import Values
from kiln.testing.conformance.behaviours.watching import Watching


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
    """Judges a compute driver; mix it into a TestCase that has ``make_driver``.

    An ability or an option that the driver lacks is not skipped: the suite
    checks that it is refused.
    """
