"""Demo of a real Docker Swarm in containers: created, repaired twice, deleted."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kiln import conf as kiln_conf
from kiln.cli.demo.clusters import Play
from kiln.cli.demo.stage import Stage
from kiln.cli.exit_codes import ExitCode
from kiln.cli.site.stores import configured_site
from kiln.clusters.models import Node
from kiln.models import Amphora, State

DRIVER = 'swarm_debian_v1'
CONFIG = """\
[compute]
default_backend = demo
owner = demo
[compute:demo]
driver = docker
url = {url}
privileged = true
zones = az1,az2,az3
watch_interval = 0.5
[db]
url = sqlite:///{folder}/kiln.db
key_file = {folder}/keys
[clusters]
driver_path =
lease = 5
quiesce = 1
watch = 2
"""
PAGE = """\
cluster: demo
driver: swarm_debian_v1
server_type: container
image: kiln/swarm-node:latest
nodegroups:
  - name: managers
    role: control
    count: 3
    zones: spread
    health: {unhealthy_after: 1}
  - name: workers
    count: 2
    parameters:
      labels: {tier: front}
    health: {unhealthy_after: 1, max_unhealthy: 60%}
"""


def play(stage: Stage, url: str) -> ExitCode:
    """Run the demo on a Docker Engine; return once all but the image is gone."""
    with tempfile.TemporaryDirectory(prefix='kiln-demo-') as name:
        folder = Path(name)
        config = folder / 'kiln.conf'
        config.write_text(CONFIG.format(folder=folder, url=url))
        stage.title('0. Build an image with Docker Engine; takes a minute the first time')
        # The build command has printed its error.
        if failed := _build_image(config):
            return failed
        conf = kiln_conf.load([str(config)], [], environment={})
        with configured_site(conf, stage.clock) as site:
            SwarmPlay(stage, site, config).run()
    return ExitCode.OK


def _build_image(config: Path) -> ExitCode:
    build = ('image', 'build', 'swarm-node', '--max-age', '30d', '--into', 'demo')
    built = subprocess.run(  # noqa: S603  # this very program
        [sys.executable, '-m', 'kiln.cli', '--config-file', str(config), *build],
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    known = built.returncode in list(ExitCode)
    return ExitCode(built.returncode) if known else ExitCode.UNFORESEEN


class SwarmPlay(Play):
    """The four acts."""

    page = PAGE

    def run(self) -> None:
        self._create()
        self._list('Nodes as its managers list them')
        self._lose('workers')
        self._lose('managers')
        self._list('Nodes after both repairs')
        self._delete(4)

    def _create(self) -> None:
        self._stage.title('1. A file becomes a Swarm')
        self._declare()
        self._expect_whole(5)

    def _list(self, title: str) -> None:
        self._stage.say(f'{title}:')
        found = self._site.run_verb(DRIVER, 'nodes', 'demo', {})
        for name, what in found.items():
            self._stage.say(f'  {name}: {what}')
        names = {node.name for node in self._nodes()}
        self._stage.expect('the swarm lists exactly the nodes of kiln', set(found), names)

    def _lose(self, group: str) -> None:
        victim = self._nodes(group)[0]
        number = {'workers': 2, 'managers': 3}[group]
        self._stage.title(f'{number}. {victim.name} is destroyed outside of kiln')
        self._destroy(victim)
        self._repair([victim])
        self._stage.expect(f'{victim.name} was replaced', victim.id in self._ids(), False)
        self._expect_whole(5)

    def _destroy(self, node: Node) -> None:
        assert node.compute_id is not None
        self._site.backends.get(node.backend).delete(node.compute_id, wait=True).result()

    def _machines(self) -> list[Amphora]:
        listed = self._site.backends.get(None).list_amphorae().result()
        return [one for one in listed if one.state is not State.DELETED]
