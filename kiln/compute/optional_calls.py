"""OptionalCalls: facade calls that a backend can lack, and how each call is sent."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from kiln.compute.effect import EffectFlow
from kiln.compute.goals import StatesGoal
from kiln.compute.stack import Stack, beginning
from kiln.compute_drivers import arguments, validation
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError
from kiln.models import Attachment, ImageFacts, Resource, ServerGroup, State
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import Operation, Priority

P = ParamSpec('P')
T = TypeVar('T')

#: Labels of operations whose method has another name.
_KINDS = {'get_amphora': 'get', 'list_amphorae': 'list'}


def name_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Add backend, operation and machine to each error that a call raises at once."""
    kind = _KINDS.get(method.__name__, method.__name__)
    names = [
        (index, name)
        for index, name in enumerate(inspect.signature(method).parameters)
        if name in {'amphora_id', 'build_key'}
    ]

    @functools.wraps(method)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except AmphoraComputeError as exc:
            # Not by name_missing(), because an open circuit can refuse thousands of calls.
            if exc.backend is None:
                facade: Any = args[0]
                exc.backend = facade.name
            if exc.operation is None:
                exc.operation = kind
            for index, name in names:
                value: Any = args[index] if index < len(args) else kwargs.get(name)
                # An invalid argument itself appears only in the message.
                if (
                    getattr(exc, name) is None
                    and isinstance(value, str)
                    and validation.is_text(value)
                ):
                    setattr(exc, name, value)
            raise

    return checked


class OptionalCalls(abc.ABC):
    """Optional calls: each returns an Operation at once, or is refused at once.

    :raises UnsupportedOperation: the backend lacks the ability.
    """

    # ---- execution state -------------------------------------------------

    @name_errors
    def suspend(
        self, amphora_id: str, *, wait: bool = False, timeout: float | None = None
    ) -> Operation[None]:
        """Suspend an active amphora."""
        return self._effect(
            Call.SUSPEND, amphora_id, goal={State.SUSPENDED}, wait=wait, timeout=timeout
        )

    @name_errors
    def resume(
        self, amphora_id: str, *, wait: bool = False, timeout: float | None = None
    ) -> Operation[None]:
        """Resume a suspended amphora."""
        return self._effect(
            Call.RESUME, amphora_id, goal={State.ACTIVE}, wait=wait, timeout=timeout
        )

    @name_errors
    def reboot(
        self,
        amphora_id: str,
        *,
        hard: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Operation[None]:
        """Reboot an amphora; ``hard`` resets it as by its power switch."""
        return self._effect(
            Call.REBOOT, amphora_id, hard, goal={State.ACTIVE}, wait=wait, timeout=timeout
        )

    @name_errors
    def rebuild(
        self,
        amphora_id: str,
        *,
        image_id: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Operation[None]:
        """Rebuild an amphora under its id, from its image or another."""
        return self._effect(
            Call.REBUILD, amphora_id, image_id, goal={State.ACTIVE}, wait=wait, timeout=timeout
        )

    # ---- ports, networks, groups, resources ------------------------------

    @name_errors
    def attach_port(
        self, amphora_id: str, port_id: str, *, timeout: float | None = None
    ) -> Operation[Attachment]:
        """Attach a port; succeed if it is already attached."""
        return self._submit(Call.ATTACH_PORT, amphora_id, port_id, timeout=timeout)

    @name_errors
    def detach_port(
        self, amphora_id: str, port_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Detach a port; succeed if it is not attached."""
        return self._submit(Call.DETACH_PORT, amphora_id, port_id, timeout=timeout)

    @name_errors
    def attach_network(
        self,
        amphora_id: str,
        network_id: str,
        *,
        address: str | None = None,
        timeout: float | None = None,
    ) -> Operation[Attachment]:
        """Attach a new port of a network, with a fixed address if one is given."""
        return self._submit(Call.ATTACH_NETWORK, amphora_id, network_id, address, timeout=timeout)

    @name_errors
    def detach_network(
        self, amphora_id: str, network_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Detach all ports of a network."""
        return self._submit(Call.DETACH_NETWORK, amphora_id, network_id, timeout=timeout)

    @name_errors
    def create_server_group(
        self, name: str, policy: str, *, timeout: float | None = None
    ) -> Operation[ServerGroup]:
        """Create a group of amphorae with a placement policy."""
        return self._submit(Call.CREATE_SERVER_GROUP, name, policy, timeout=timeout)

    @name_errors
    def delete_server_group(
        self, server_group_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Delete a group; its members stay."""
        return self._submit(Call.DELETE_SERVER_GROUP, server_group_id, timeout=timeout)

    @name_errors
    def validate_flavor(self, flavor: str, *, timeout: float | None = None) -> Operation[None]:
        """Succeed if builds can use the flavor."""
        return self._submit(Call.VALIDATE_FLAVOR, flavor, timeout=timeout)

    @name_errors
    def validate_image(self, image_id: str, *, timeout: float | None = None) -> Operation[None]:
        """Succeed if builds can use the image."""
        return self._submit(Call.VALIDATE_IMAGE, image_id, timeout=timeout)

    @name_errors
    def validate_zone(
        self, availability_zone: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Succeed if builds can use the availability zone."""
        return self._submit(Call.VALIDATE_ZONE, availability_zone, timeout=timeout)

    @name_errors
    def validate_network(
        self, network_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Succeed if builds can use the network."""
        return self._submit(Call.VALIDATE_NETWORK, network_id, timeout=timeout)

    @name_errors
    def validate_security_group(
        self, security_group: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Succeed if builds can use the security group."""
        return self._submit(Call.VALIDATE_SECURITY_GROUP, security_group, timeout=timeout)

    @name_errors
    def check_ports(
        self,
        sec_groups: Iterable[str],
        ports: Iterable[str],
        peers: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Operation[None]:
        """Succeed if security groups open ports to other machines."""
        return self._submit(Call.CHECK_PORTS, sec_groups, ports, peers, timeout=timeout)

    @name_errors
    def describe_image(
        self, image_id: str, *, timeout: float | None = None
    ) -> Operation[ImageFacts]:
        """Return the facts of an image."""
        return self._submit(Call.DESCRIBE_IMAGE, image_id, timeout=timeout)

    @name_errors
    def list_zones(self, *, timeout: float | None = None) -> Operation[Sequence[str]]:
        """Return the names of the zones that accept builds now."""
        return self._submit(Call.LIST_ZONES, timeout=timeout)

    @name_errors
    def list_resources(
        self, owner: str | None = None, *, timeout: float | None = None
    ) -> Operation[Sequence[Resource]]:
        """Return the resources of this site other than amphorae."""
        owner = self._stack.driver.owner if owner is None else owner
        return self._submit(Call.LIST_RESOURCES, owner, timeout=timeout)

    @name_errors
    def delete_resource(
        self, resource: Resource, *, timeout: float | None = None
    ) -> Operation[None]:
        """Delete a resource of this site."""
        return self._submit(Call.DELETE_RESOURCE, resource, timeout=timeout)

    @name_errors
    def console_log(
        self, amphora_id: str, *, lines: int | None = None, timeout: float | None = None
    ) -> Operation[str]:
        """Return the console log of an amphora."""
        return self._submit(Call.CONSOLE_LOG, amphora_id, lines, timeout=timeout)

    @name_errors
    def claim(
        self, amphora_id: str, build_key: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Make a machine of the backend that belongs to nobody an amphora of this site."""
        return self._submit(Call.CLAIM, amphora_id, build_key, timeout=timeout)

    # ---- how each call is sent --------------------------------------------

    @property
    @abc.abstractmethod
    def _stack(self) -> Stack:
        """The driver with all of its guards."""

    def _submit(
        self,
        call: Call,
        *args: Any,
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Errand[Any]:
        """Check the arguments of a call, and send it."""
        stack = self._stack
        args = arguments.checked(call, stack.driver.owner, args)
        seconds = validation.check_timeout(timeout)
        return stack.executor.submit(call, *args, timeout_s=seconds, priority=priority)

    def _effect(
        self,
        call: Call,
        amphora_id: str,
        *args: Any,
        goal: Collection[State],
        wait: bool,
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[None]:
        """Send a call, and with ``wait`` end when the backend shows its effect."""
        if not validation.check_flag('wait', wait):
            return self._submit(call, amphora_id, *args, timeout=timeout, priority=priority)
        stack = self._stack
        args = arguments.checked(call, stack.driver.owner, (amphora_id, *args))
        operation = self._waiting(call.label, args[0], goal, timeout, priority)
        flow = EffectFlow(stack, operation, goal)
        with beginning(operation):
            return stack.executor.submit(call, *args, operation=operation, accepted=flow.accepted)

    def _waiting(
        self,
        kind: str,
        amphora_id: str,
        goal: Collection[State],
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Errand[Any]:
        """Return an operation that ends when the amphora is in a state of the goal."""
        stack = self._stack
        seconds = validation.check_timeout(timeout) or stack.settings.effect_timeout_s
        return stack.operation(
            kind,
            amphora_id,
            stack.executor.deadline(seconds),
            amphora_id=amphora_id,
            goal=StatesGoal(frozenset(goal)),
            priority=priority,
        )
