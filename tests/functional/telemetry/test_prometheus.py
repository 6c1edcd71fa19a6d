"""A conductor's metrics, as Prometheus and its tool read them, and the dashboard on them."""

import json
import re
import signal
import subprocess
from xml.etree import ElementTree

from kiln.telemetry.prometheus_site import CONDUCTOR_FAMILIES, SITE_FAMILIES
from tests.functional.telemetry.prometheus import DASHBOARD, Monitored, dashboard_queries
from tools.dashboard_picture import picture

PAGE = DASHBOARD.parents[2] / 'source/admin/observability.rst'
#: From drivers with a monitor, and from controllers: the builds of a conductor end once they are
#: accepted.
ELSEWHERE = {'kiln_cluster_metric', 'kiln_builds_in_flight'}


class Metrics(Monitored):
    def test_prometheus_finds_no_fault_with_the_metrics_of_a_conductor(self):
        self.up('web')
        self.until(lambda: self.value('kiln_clusters{status="ready"}') == 1)
        done = subprocess.run(
            ['promtool', 'check', 'metrics'],
            input=self.scrape(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual((0, '', ''), (done.returncode, done.stdout, done.stderr))

    def test_a_conductor_counts_its_operations_from_0(self):
        created = 'kiln_operations_total{kind="create",outcome="succeeded"}'
        self.assertEqual(0.0, self.value(created))
        self.up('web')
        self.until(lambda: self.value(created) == 1.0)
        self.until(lambda: self.value('kiln_nodes{state="ready"}') == 2.0)
        self.assertEqual(0.0, self.value('kiln_operations_total{kind="create",outcome="failed"}'))

    def test_the_page_has_every_metric_with_its_labels(self):
        self.up('web')
        self.until(lambda: self.value('kiln_clusters{status="ready"}') == 1)
        self.until(lambda: 'kiln_last_poll_timestamp_seconds ' in self.scrape())
        rows = dict(re.findall(r'^``(kiln_\w+)``\s+(\S.*?)(?:\s\s|$)', PAGE.read_text(), re.M))
        shown = {}
        for name, labels in re.findall(r'^(kiln_\w+?)(?:{(.*?)})? ', self.scrape(), re.M):
            name = re.sub('_(bucket|count|sum)$', '', name)
            found = re.findall(r'(\w+)="', labels)
            shown[name] = [one for one in found if one != 'le']
        self.assertEqual(set(shown), rows.keys() - ELSEWHERE)
        for name, labels in shown.items():
            described = set(rows[name].split(', ')) - {'--'}
            self.assertEqual(set(labels), described, name)
        for family in SITE_FAMILIES + CONDUCTOR_FAMILIES:
            self.assertIn(family.name, shown)


class Dashboard(Monitored):
    def test_each_query_of_the_dashboard_finds_data_and_alerts_fire(self):
        self.start_prometheus()
        self.up('web')
        self.until(lambda: self.value('kiln_clusters{status="ready"}') == 1)
        self.run_kiln('cluster', 'delete', '--yes', '--no-wait', 'web')
        queries = dashboard_queries()
        self.assertGreater(len(queries), 15)
        for title, query in queries:
            with self.subTest(title):
                self.until(lambda query=query: self.query(query))
        drawn = ElementTree.fromstring(picture(self.prometheus, 1.0))
        words = {one.text for one in drawn.iter('{http://www.w3.org/2000/svg}text')}
        self.assertLessEqual({title for title, _ in queries}, words)
        # Rules are loaded, and none fires for a healthy conductor.
        self.assertEqual([], self.query('ALERTS{alertstate="firing"}'))
        self.conductor.send_signal(signal.SIGTERM)
        self.until(lambda: self.query('ALERTS{alertname="KilnNoConductor"}'))

    def test_panels_have_places_of_their_own_and_the_chosen_data_source(self):
        dashboard = json.loads(DASHBOARD.read_text())
        panels = dashboard['panels']
        self.assertEqual(len(panels), len({panel['id'] for panel in panels}))
        places = {(panel['gridPos']['x'], panel['gridPos']['y']) for panel in panels}
        self.assertEqual(len(panels), len(places))
        sources = {panel['datasource']['uid'] for panel in panels}
        self.assertEqual({'${datasource}'}, sources)
        self.assertEqual('datasource', dashboard['templating']['list'][0]['name'])
