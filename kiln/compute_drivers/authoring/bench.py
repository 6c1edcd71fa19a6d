"""What a driver brings along to be tried with: ports, networks, and faults."""

from __future__ import annotations

import contextlib
import enum
import pkgutil
import unittest
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import DriverLoadError
from kiln.models import BuildRequest, ImageFacts, Resource, State


class CannotBeShown(unittest.SkipTest):
    """The driver or the vendor's fixture gives no means to show a behaviour."""


class Refusal(enum.Enum):
    """Reason for which a backend refuses a call, in words of its own."""

    #: The request is wrong, whatever the state of the backend.
    WRONG = 'wrong'
    #: The request names something that does not exist, such as an image.
    UNKNOWN = 'unknown'
    #: The credentials are not known.
    NO_LOGIN = 'no login'
    #: The credentials are known, but do not allow the action.
    FORBIDDEN = 'forbidden'
    #: A name or port is in use, or the amphora is busy or in a wrong state.
    CONFLICT = 'conflict'
    #: An error of the backend itself, which does not promise that it did nothing.
    BROKEN = 'broken'


class Faults:
    """Makes a backend fail on demand; a vendor overrides what its backend can do.

    What is left as it is cannot be shown, and is reported as that.
    """

    #: Reasons with which the backend fails a build that it has accepted, in its own words, and
    #: the code of the build error that each stands for.
    fault_codes: Mapping[str, str] = MappingProxyType({})
    #: States into which ``enter_state`` can bring an amphora, in the words of the backend, and
    #: the state of the contract that each stands for. A word that no driver knows is UNKNOWN.
    states: Mapping[str, State] = MappingProxyType({})

    def refuse(self, call: Call) -> None:
        """Have the next such call refused by a backend that is out of order."""
        raise CannotBeShown('refuse() is not among the faults that are offered')

    def refuse_for(self, call: Call, reason: Refusal) -> int | None:
        """Have the next such call refused for a reason; return the HTTP status, if it has one."""
        raise CannotBeShown('refuse_for() is not among the faults that are offered')

    def lose_answer(self, call: Call) -> None:
        """Have the next such call take effect, and its answer be lost."""
        raise CannotBeShown('lose_answer() is not among the faults that are offered')

    def fall_silent(self, call: Call) -> None:
        """Have the next such call get no answer for minutes, and no error either."""
        raise CannotBeShown('fall_silent() is not among the faults that are offered')

    def outage(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which no call gets an answer, and no call has an effect."""
        raise CannotBeShown('outage() is not among the faults that are offered')

    def limit_rate(self, call: Call, retry_after: float) -> None:
        """Have the next such call refused as one too many."""
        raise CannotBeShown('limit_rate() is not among the faults that are offered')

    def exhaust_quota(self) -> None:
        """Have the next build find the project's quota used up."""
        raise CannotBeShown('exhaust_quota() is not among the faults that are offered')

    def exhaust_capacity(self) -> None:
        """Have the next build find no host with room."""
        raise CannotBeShown('exhaust_capacity() is not among the faults that are offered')

    def fail_build(self, text: str) -> None:
        """Have the next build accepted, and then end in error for that reason."""
        raise CannotBeShown('fail_build() is not among the faults that are offered')

    def stall_build(self) -> None:
        """Have the next build accepted, and then never come to its end."""
        raise CannotBeShown('stall_build() is not among the faults that are offered')

    def vanish(self, amphora_id: str) -> None:
        """Remove an instance behind the driver's back."""
        raise CannotBeShown('vanish() is not among the faults that are offered')

    def enter_state(self, amphora_id: str, state: str) -> None:
        """Bring an instance into one of ``states`` behind the driver's back."""
        raise CannotBeShown('enter_state() is not among the faults that are offered')


class Bench(Faults):
    """A vendor's own, made for each driver that is judged.

    A driver class names it, and so need not import it::

        bench = 'kiln_acme.bench:AcmeBench'

    The kit then finds it wherever that driver is judged: in the vendor's
    tests, by ``kiln driver test``, and behind any number of wrappers.
    """

    #: Arguments every build needs on this backend: flavor, image, networks.
    build_arguments: Mapping[str, Any] = MappingProxyType({})
    #: Ports that hang nowhere, and networks, to try attaching with.
    port_ids: Sequence[str] = ()
    network_ids: Sequence[str] = ()
    #: True if the backend knows which ports, and which networks, exist: a driver must then
    #: refuse any other. A backend without a list of them takes any id.
    knows_ports: bool = False
    knows_networks: bool = False
    #: True if the addresses of an amphora name the ports, and the networks, that its build
    #: named. A backend can leave either out.
    reports_ports: bool = False
    reports_networks: bool = False
    #: True if the backend has one port for each network of an amphora.
    attaches_networks_once: bool = False
    #: Images that builds accept, as describe_image() must describe them. With two, an amphora
    #: is rebuilt from the other image; at least one should have properties.
    images: Sequence[ImageFacts] = ()
    #: Security groups, each with the ports, such as ``22/tcp``, that it opens to its members, and
    #: no others. Two groups show more than one.
    group_ports: Mapping[str, Sequence[str]] = MappingProxyType({})
    #: An account of the images, as ``USER`` or ``USER:GROUP``, which the machine of the tests does
    #: not have. Without it the kit uses an account that nobody has.
    image_account: str = ''
    #: The hosts of each zone, where the tests can fill them: they build one more amphora in a
    #: group than there are hosts. 0 if not known.
    hosts_per_zone: int = 0
    #: True if the console log of an amphora shows each of its boots.
    logs_boots: bool = False
    #: The most amphorae in one page of the backend's lists, where a test can build one more.
    page_size: int = 4
    #: Seconds within which the backend shows every effect, such as that a new amphora is
    #: active. So long the kit waits for a promise that is not kept.
    timeout_s: float = 30.0
    #: Seconds within which every call returns, as it only starts its effect.
    soon_s: float = 5.0

    #: Timeout in seconds of a call that must miss its deadline; enough for it to be accepted.
    short_s: float = 2.0

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def another_driver(self) -> Any:
        """Open another driver of the same backend, as another process would.

        Only needed where each driver of the tests has a backend of its own, in memory.
        """
        raise CannotBeShown('another_driver() is not among what the bench offers')

    def name_image(self, name: str, image_id: str | None) -> None:
        """Let a name stand for an image from now on, or for none, as its operator would."""
        raise CannotBeShown('name_image() is not among what the bench offers')

    def lacking(self, amphora_id: str, request: BuildRequest) -> Collection[str]:
        """Return which of keys, sec_groups, files and user_data the backend does not have.

        No call of the contract reports them, so only the backend itself can show that they
        have arrived.
        """
        raise CannotBeShown('lacking() is not among what the bench offers')

    def host_of(self, amphora_id: str) -> str:
        """Return the host that an active amphora runs on, in any form.

        No call of the contract reports it, so only the backend can show that the policy of a
        server group was kept.
        """
        raise CannotBeShown('host_of() is not among what the bench offers')

    def reboots_hard(self, amphora_id: str) -> bool:
        """Return True if the reboot that is under way is a hard one, by the backend's word."""
        raise CannotBeShown('reboots_hard() is not among what the bench offers')

    def make_unowned(self, name: str) -> str:
        """Make a machine that belongs to nobody, as by hand; return its id once it runs.

        It has that name, and whatever else the backend gives to its machines.
        """
        raise CannotBeShown('make_unowned() is not among what the bench offers')

    def leave_resources(self) -> Sequence[Resource]:
        """Make a resource of each kind, of this site, that no amphora uses; return them."""
        raise CannotBeShown('leave_resources() is not among what the bench offers')


def offers_faults(faults: Faults) -> bool:
    """Return True if any fault was written, of those that a backend can have."""
    return any(
        getattr(type(faults), name) is not fault
        for name, fault in vars(Faults).items()
        if callable(fault) and not name.startswith('_')
    )


def bench_of(driver: AmphoraComputeDriver) -> Bench:
    """Return the bench of a driver, or an empty one where it names none.

    :raises DriverLoadError: it names one that cannot be imported.
    """
    innermost: Any = driver
    while hasattr(innermost, 'inner'):
        innermost = innermost.inner
    return bench_class_of(innermost, driver.name)(innermost)


def bench_class_of(driver: object, name: str) -> type[Bench]:
    """Return the class of the bench that a driver or its class names, or of an empty one.

    :raises DriverLoadError: it names one that cannot be imported.
    """
    path = getattr(driver, 'bench', None)
    if path is None:
        return Bench
    try:
        bench_class: type[Bench] = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as exc:
        raise DriverLoadError(f'Cannot load bench {path!r} of {name!r}: {exc}.') from exc
    return bench_class
