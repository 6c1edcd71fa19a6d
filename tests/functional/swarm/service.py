"""Service of the test Swarm: its image, and the number of its running replicas."""

import collections
import functools
import math
import pathlib
import re
import tempfile
import threading

from kiln.clusters.models import NodeState
from tests.functional.engines import COMMAND, packed, plain_tar

BASE = 'kiln/swarm-node:latest'
#: The image of the service. Without a registry, the image of the nodes contains it.
APP = 'kiln-tests/app:1'
_MARK = '/etc/kiln-tests-image'
_TAR = '/usr/share/kiln-tests-app.tar'
#: Runs before systemd reports the engine as started.
_LOAD = f"""[Service]
ExecStartPost=/bin/sh -c 'docker image inspect {APP} >/dev/null 2>&1 || docker import {_TAR} {APP}'
"""


@functools.cache
def _app():
    with tempfile.TemporaryDirectory() as folder:
        return plain_tar(pathlib.Path(folder, 'app.tar')).read_bytes()


def node_image(client, number):
    """Make an image of nodes that contains the service; each number is another image."""
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
    """Return the number of replicas that run in the nodes that a function lists."""
    return placed(containers).total()


def placed(containers):
    """Return the number of replicas that run in each node that a function lists, by id.

    Processes on this machine are counted, because a query of one node after the other would
    miss a replica that moves meanwhile. So the nodes are listed before and after the count,
    and their engine must run on this machine.
    """
    ids = {one.id for one in containers()}
    places = _places_of_replicas()
    ids |= {one.id for one in containers()}
    return collections.Counter(one for place in places for one in ids.intersection(place))


def _places_of_replicas():
    """Return the control group of each replica on this machine, split into its parts."""
    wanted = ' '.join(COMMAND[:2]) + ' trap'
    groups = set()
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            words = (process / 'cmdline').read_text(errors='replace').replace('\0', ' ')
            if words.startswith(wanted):
                groups.add((process / 'cgroup').read_text())
        except OSError:
            # The process ended meanwhile.
            continue
    return [re.split(r'[/\n-]|\.scope', group) for group in groups]


class Watching(threading.Thread):
    """Counts replicas and draining managers repeatedly; keeps the minimum and maximum.

    A Swarm that has lost nodes may leave two replicas on one node, and never spreads them again.
    So the replicas of the fullest node are counted, too: a plan that takes a node takes them all.
    """

    def __init__(self, site):
        super().__init__(daemon=True)
        self._site, self._over = site, threading.Event()
        self.fewest, self.fullest, self.leaving, self.looks = math.inf, 0, 0, 0

    def run(self):
        while not self._over.wait(0.2):
            replicas = placed(self._site.containers)
            self.fewest = min(self.fewest, replicas.total())
            self.fullest = max(self.fullest, *replicas.values(), 0)
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
