"""Drivers that wait too long, or report what no machine has answered."""

import socket
import time
import urllib.request

from kiln.cluster_drivers.readiness import WhenHttp, WhenTcp
from kiln.cluster_drivers.values import DRAINED, READY, Bootstrap, Drained, Readiness
from kiln.clusters.exceptions import ClusterDriverError
from kiln.testing.clusters.road.machines import Machine
from tests.kit.cluster_animals import Right

PORT = 8080
#: What the machines of these drivers answer.
UP = Machine(http={(PORT, '/ready'): (200, 'yes')})
BUSY = Machine(http={(PORT, '/work'): (200, '3')})
IDLE = Machine(http={(PORT, '/work'): (200, '0')})


def fetched(node, path, timeout=2.0):
    url = f'http://{node.address}:{PORT}{path}'
    with urllib.request.urlopen(url, timeout=timeout) as response:
        return response.read().decode()


class Polling(Right):
    """Correct: asks the machine of the node, once."""

    def is_ready(self, context, cluster, node):
        try:
            return READY if fetched(node, '/ready') == 'yes' else Readiness.not_yet('booting')
        except OSError as exc:
            return Readiness.not_yet(str(exc))

    def drain(self, context, cluster, node):
        if not node.address:
            return DRAINED
        try:
            left = int(fetched(node, '/work'))
        except OSError as exc:
            return Drained(done=False, reason=str(exc))
        return Drained(done=left == 0, reason=f'{left} pieces of work')


class ByRule(Right):
    """Correct: has a rule instead of code."""

    ready = WhenHttp(PORT, '/ready')


class ByConnection(Right):
    """Correct: its rule asks for no more than a connection."""

    ready = WhenTcp(PORT)


class Greeting(Right):
    """Correct: its hooks speak to machines, and have kiln repeat them until one answers."""

    def post_create_cluster(self, context, cluster, operation):
        for node in context.nodes:
            try:
                fetched(node, '/ready')
            except OSError as exc:
                raise ClusterDriverError(f'{node.name}: {exc}', retryable=True) from exc

    post_update_cluster = post_create_cluster


class Sleepy(Right):
    """Waits in bootstrap, for a machine that might appear."""

    def bootstrap(self, context, cluster, node):
        time.sleep(30)
        return Bootstrap()


class Endless(Polling):
    """Asks without a limit."""

    def is_ready(self, context, cluster, node):
        try:
            socket.create_connection((node.address, PORT)).close()
        except OSError as exc:
            return Readiness.not_yet(str(exc))
        return super().is_ready(context, cluster, node)


class Dogged(Polling):
    """Asks again and again within one poll."""

    def drain(self, context, cluster, node):
        for _ in range(5):
            found = super().drain(context, cluster, node)
            if found.done:
                return found
            time.sleep(1)
        return found


class Stubborn(Right):
    """Never finishes a drain, although it asks nobody."""

    def drain(self, context, cluster, node):
        return Drained(done=False, reason='work is left')


class Eager(Polling):
    """Takes a connection for an answer."""

    def is_ready(self, context, cluster, node):
        try:
            socket.create_connection((node.address, PORT), timeout=1).close()
        except OSError as exc:
            return Readiness.not_yet(str(exc))
        return READY


class Optimist(Polling):
    """Is ready if the machine cannot be asked."""

    def is_ready(self, context, cluster, node):
        try:
            fetched(node, '/ready')
        except OSError:
            return READY
        return READY


class Envious(Polling):
    """Asks the oldest node about all others."""

    def is_ready(self, context, cluster, node):
        return super().is_ready(context, cluster, context.nodes[0])


class Hopeless(Polling):
    """Gives a node up whose machine is away."""

    def is_ready(self, context, cluster, node):
        try:
            fetched(node, '/ready')
        except OSError as exc:
            return Readiness.failed(str(exc))
        return READY


class Rude(Polling):
    """Takes a node that serves for one that is drained."""

    def drain(self, context, cluster, node):
        try:
            fetched(node, '/work')
        except OSError as exc:
            return Drained(done=not node.address, reason=str(exc))
        return DRAINED
