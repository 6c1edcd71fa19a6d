"""Engines of nodes, honest and hostile, and the cluster driver that asks them.

The driver is a folder of its own, which imports this module in the process of a conductor.
"""

import contextlib
import dataclasses
import threading
import time

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.swarm_debian_v1.line import Silent, TlsLine, trust
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import READY, Bootstrap, Readiness
from tests.unit.cluster_drivers.swarm.case import a_node
from tests.unit.cluster_drivers.swarm.test_line import authority
from tests.unit.foreign.clients import server_tls
from tests.unit.foreign.hostile import (
    HostileServer,
    deep,
    dripping_body,
    escapes,
    flood,
    long_refusal,
)

DRIVER = 'played_v1'
#: The groups whose nodes are asked are named ``asked-PORT``; others are ready at once.
ASKED = 'asked'
#: A call about a node of such a group never returns.
HUNG = 'hung'
_FOLDER = {
    '__init__.py': '',
    'version.py': f"version = '1.0.0'\ndriver = '{DRIVER}'\nprovides = [('*', '*', 'played')]\n",
    'driver.py': 'from tests.functional.conductors.engines import Driver as Driver\n',
}
#: The certificate of all played engines is that of one node.
_NODE = dataclasses.replace(a_node(1), address='127.0.0.1')


class Driver(NodeClusterDriver):
    """Asks the engine of each node as the driver of swarms does; all nodes have one engine."""

    name = DRIVER
    version = '1.0.0'
    provides = (('*', '*', 'played'),)

    def get_template_definition(self):
        return TemplateDefinition(None)

    def bootstrap(self, context, cluster, node):
        return Bootstrap()

    def is_ready(self, context, cluster, node):
        kind, _, port = node.group.partition('-')
        if kind == HUNG:
            threading.Event().wait()
        if kind != ASKED:
            return READY
        with contextlib.closing(
            TlsLine(_NODE, trust(authority(), time.time()), port=int(port))
        ) as line:
            try:
                line.ask('GET', '/info')
            except Silent as exc:
                return Readiness.not_yet(str(exc))
        return READY


def write_driver(folder):
    """Write the folder of the driver, for the option driver_path."""
    home = folder / DRIVER
    home.mkdir(mode=0o700)
    for name, text in _FOLDER.items():
        (home / name).write_text(text)


def honest(server, stream):
    stream.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')


#: By kind of tenant, what its engines do.
KINDS = {
    'dripping': (dripping_body,),
    'flooding': (flood, deep),
    'escaping': (escapes, long_refusal),
}


class Engine(HostileServer):
    """An engine that never gives up by itself."""

    longest_s = 3600.0

    def __init__(self, behave):
        super().__init__(behave, server_tls())
        self.asked = 0

    def _answer(self, stream):
        self.asked += 1
        super()._answer(stream)
