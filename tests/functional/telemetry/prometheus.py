"""A real Prometheus that scrapes a real conductor."""

import contextlib
import json
import pathlib
import socket
import subprocess
import tempfile
import urllib.parse
import urllib.request

from tests.unit.cli.processes import Processes

DASHBOARD = pathlib.Path(__file__).parents[3] / 'doc/examples/prometheus/kiln-dashboard.json'
RULES = DASHBOARD.with_name('kiln-alerts.yaml')
SITE = """\
[compute]
default_backend = east
metrics = true
[compute:east]
driver = noop
path = {folder}/cloud.db
build_s = 0.2
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
watch = 1
metrics_listen = 127.0.0.1:{port}
"""
CLUSTER = """\
cluster: {name}
coe: nodes
image: debian-13
nodegroups:
  - {{name: work, flavor: small, count: 2}}
"""
SCRAPES = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}']
scrape_configs:
  - job_name: kiln
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        return listener.getsockname()[1]


class Monitored(Processes):
    """Has a conductor that serves metrics at ``url``."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.port = free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.config = self.folder / 'kiln.conf'
        self.config.write_text(SITE.format(folder=self.folder, port=self.port))
        self.conductor = self.kiln('conductor')
        self.until(lambda: self.fetch(f'{self.url}/readyz') == 'ok\n')

    def kiln(self, *argv):
        return self.start('--config-file', str(self.config), *argv)

    def up(self, name):
        """Have the conductor build a cluster."""
        page = self.folder / f'{name}.yaml'
        page.write_text(CLUSTER.format(name=name))
        self.run_kiln('up', '--yes', '--no-wait', str(page))

    def run_kiln(self, *argv):
        process = self.kiln(*argv)
        _, said = process.communicate()
        self.assertEqual(0, process.returncode, said)

    def fetch(self, url):
        """Return a page; empty while it cannot be read."""
        with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
            return answer.read().decode()
        return ''

    def scrape(self):
        return self.fetch(f'{self.url}/metrics')

    def value(self, series):
        """Return the value of a series as the conductor shows it."""
        for line in self.scrape().splitlines():
            name, _, value = line.rpartition(' ')
            if name == series:
                return float(value)
        return None

    def start_prometheus(self):
        """Start a Prometheus that scrapes the conductor each second."""
        config = self.folder / 'prometheus.yaml'
        config.write_text(SCRAPES.format(rules=RULES, port=self.port))
        port = free_port()
        self.prometheus = f'http://127.0.0.1:{port}'
        process = subprocess.Popen(
            [
                'prometheus', f'--config.file={config}',
                f'--storage.tsdb.path={self.folder}/tsdb',
                f'--web.listen-address=127.0.0.1:{port}', '--log.level=error',
            ],
        )  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.until(lambda: 'Ready' in self.fetch(f'{self.prometheus}/-/ready'))

    def query(self, expression):
        """Return what Prometheus finds for an expression now."""
        words = urllib.parse.urlencode({'query': expression})
        answer = self.fetch(f'{self.prometheus}/api/v1/query?{words}')
        return json.loads(answer)['data']['result'] if answer else []


def dashboard_queries():
    """Return the expressions of the dashboard by the title of their panel."""
    panels = json.loads(DASHBOARD.read_text())['panels']
    return [
        (panel['title'], target['expr'].replace('$__rate_interval', '1m'))
        for panel in panels
        for target in panel['targets']
    ]
