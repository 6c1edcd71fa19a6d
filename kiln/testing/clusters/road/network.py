"""Network of the kit: machines play their part, and waiting takes virtual time only."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import math
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Node
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.road.machines import SILENT, Line, Machine
from kiln.testing.clusters.road.pages import PageServer, ServerThread

#: The addresses of sample machines.
NETWORK = '192.0.2.'
#: Those, and the addresses of machines of the simulated cloud; nobody else has them.
_MACHINES = tuple(map(ipaddress.ip_network, (f'{NETWORK}0/24', '127.64.0.0/10')))
#: Virtual seconds after which a call that waits is ended.
LONGEST_S = 3600.0


class WaitsForever(BaseException):
    """Ends a call that would wait for very long; not an Exception, which drivers catch."""


class Network:
    """The machines that a driver can reach, and the time that it waits for them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.machines: Mapping[str, Machine] = {}
        self.otherwise = SILENT
        #: Returns the machine at an address, if a bench plays it.
        self.played: Callable[[str], Machine | None] | None = None
        #: What was asked for: addresses with their ports, and consoles.
        self.asked: list[str] = []
        self._server: PageServer | None = None
        self._hanging: set[int] = set()

    def console(self, node: Node) -> str:
        """Return the console of a node; for a context."""
        self.asked.append(f'the console of {node.name}')
        text = self._machine(node.address or '').console
        if text is None:
            raise ClusterDriverError(f'Cannot read the console of node {node.name} now.')
        return text

    def _machine(self, host: str) -> Machine:
        if self.played is not None and (machine := self.played(host)) is not None:
            return machine
        return self.machines.get(host, self.otherwise)

    @contextlib.contextmanager
    def playing(self, otherwise: Machine = SILENT, **machines: Machine) -> Iterator[None]:
        """Play some machines, by the last number of their addresses, as long as a block lasts.

        Applies to the calling thread, and to threads that the block starts.
        """
        before = self.otherwise, self.machines
        self.otherwise, self.asked = otherwise, []
        self.machines = {NETWORK + name.strip('_'): one for name, one in machines.items()}
        spared = set(threading.enumerate()) - {threading.current_thread()}
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            for owner, name, replacement in self._replacements():
                original = getattr(owner, name)
                setattr(owner, name, _for_others(spared, original, replacement))
                stack.callback(setattr, owner, name, original)
            try:
                yield
            except WaitsForever as exc:
                # Behaviours about time catch it themselves.
                raise CannotBeShown(f'the driver does not return: {exc}') from exc
        self.otherwise, self.machines = before

    def _close(self) -> None:
        self._hanging.clear()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        yield socket.socket, 'connect', self._connect
        yield socket.socket, 'connect_ex', self._connect_ex
        yield socket.socket, 'recv', self._received('recv')
        yield socket.socket, 'recv_into', self._received('recv_into')
        yield ssl.SSLSocket, 'do_handshake', self._received('do_handshake')
        sleep = time.sleep
        for module in list(sys.modules.values()):
            # Some authors import the function from its module.
            if getattr(module, '__dict__', {}).get('sleep') is sleep:
                yield module, 'sleep', self._sleep

    # ---- what waits ----------------------------------------------------------------

    def wait(self, seconds: float | None) -> None:
        """Let virtual time pass; None is without end."""
        if seconds is None or self.clock.monotonic() + seconds > LONGEST_S:
            raise WaitsForever(f'it waits for {"ever" if seconds is None else f"{seconds:g} s"}')
        self.clock.advance(max(0.0, seconds))

    def _sleep(self, original: Any, seconds: float) -> None:
        self.wait(seconds if math.isfinite(seconds) else None)

    def _times_out(self, sock: socket.socket) -> NoReturn:
        try:
            self.wait(sock.gettimeout())
        except WaitsForever:
            # The driver expects no such error, and could leave it open.
            sock.close()
            raise
        raise TimeoutError('timed out')

    def _connect(self, original: Any, sock: socket.socket, address: Any) -> None:
        host, port = address[:2] if isinstance(address, tuple) else ('', 0)
        if not _of_machine(host):
            original(sock, address)
            return
        self.asked.append(f'{host} at port {port}')
        machine = self._machine(host)
        if machine.line is Line.SILENT:
            self._times_out(sock)
        if not machine.accepts(port):
            raise ConnectionRefusedError(errno.ECONNREFUSED, 'Connection refused')
        if self._server is None:
            self._server = PageServer()
        blocks = sock.gettimeout()
        sock.settimeout(5.0)
        original(sock, self._server.address)
        sock.settimeout(blocks)
        self._server.plays(sock.getsockname()[1], machine, port)
        # The number of a socket that was closed is used again.
        self._hanging.discard(sock.fileno())
        if machine.line is Line.HANGS:
            self._hanging.add(sock.fileno())

    def _connect_ex(self, original: Any, sock: socket.socket, address: Any) -> int:
        if isinstance(address, tuple) and _of_machine(address[0]):
            try:
                sock.connect(address)
            except TimeoutError:
                return errno.EAGAIN
            except OSError as exc:
                return exc.errno or errno.EIO
            return 0
        result: int = original(sock, address)
        return result

    def _received(self, name: str) -> Any:
        def received(original: Any, sock: socket.socket, *arguments: Any) -> Any:
            if sock.fileno() in self._hanging:
                self._times_out(sock)
            return original(sock, *arguments)

        return received


def _of_machine(host: object) -> bool:
    try:
        address = ipaddress.ip_address(str(host))
    except ValueError:
        return False
    return any(address in network for network in _MACHINES)


def _for_others(spared: set[threading.Thread], original: Any, replacement: Any) -> Any:
    """Return a function that leaves the threads of other work as they are."""

    def called(*arguments: Any, **more: Any) -> Any:
        thread = threading.current_thread()
        if thread in spared or isinstance(thread, ServerThread):
            return original(*arguments, **more)
        return replacement(original, *arguments, **more)

    return called
