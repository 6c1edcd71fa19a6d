"""What the nodes of a Swarm run for the tests, and how many of it there are at each moment."""

import functools
import math
import pathlib
import tempfile
import threading

import docker

from kiln.clusters.models import NodeState
from tests.functional.engines import COMMAND, packed, plain_tar

BASE = 'kiln/swarm-node:latest'
#: What services run. There is no registry, so the image of the nodes brings it along.
APP = 'kiln-tests/app:1'
_MARK = '/etc/kiln-tests-image'
_TAR = '/usr/share/kiln-tests-app.tar'
#: Done before systemd calls the engine started.
_LOAD = f"""[Service]
ExecStartPost=/bin/sh -c 'docker image inspect {APP} >/dev/null 2>&1 || docker import {_TAR} {APP}'
"""


@functools.cache
def _app():
    with tempfile.TemporaryDirectory() as folder:
        return plain_tar(pathlib.Path(folder, 'app.tar')).read_bytes()


def node_image(client, number):
    """Make an image of nodes that know what services run; each number is another image."""
    made = client.containers.create(BASE)
    try:
        made.put_archive('/', packed({
            _TAR: _app(),
            _MARK: b'%d\n' % number,
            '/etc/systemd/system/docker.service.d/app.conf': _LOAD.encode(),
        }))  # fmt: skip
        made.commit('kiln-tests/swarm-node', str(number))
    finally:
        made.remove()
    return f'kiln-tests/swarm-node:{number}'


def running(containers):
    """Return how many replicas run in some nodes: their processes, whatever engines believe."""
    wanted = ' '.join(COMMAND[:2])
    found = 0
    for container in containers:
        try:
            shown = container.top(ps_args='-eo pid,args')['Processes'] or ()
        except docker.errors.APIError:
            # It does not run, or went while it was asked.
            continue
        found += sum(one[-1].startswith(f'{wanted} trap') for one in shown)
    return found


def least(replicas, nodes, groups=1):
    """Return how many replicas a plan leaves running that takes a node of each group at a time.

    A Swarm spreads them evenly over the nodes that are left.
    """
    return replicas - groups * math.ceil(replicas / (nodes - groups))


class Watching(threading.Thread):
    """Looks at replicas all the while; keeps the fewest, and the most managers on their way."""

    def __init__(self, site):
        super().__init__(daemon=True)
        self._site, self._over = site, threading.Event()
        self.fewest, self.leaving, self.looks = math.inf, 0, 0

    def run(self):
        while not self._over.wait(0.2):
            self.fewest = min(self.fewest, running(self._site.containers()))
            going = [
                one
                for one in self._site.nodes().values()
                if one.group == 'managers' and one.state is NodeState.DRAINING
            ]
            self.leaving = max(self.leaving, len(going))
            self.looks += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join(30)
