"""Facades shared by the drivers of a process, one for each backend."""

import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

from oslo_config import cfg

from kiln.adapters.octavia.conf import list_opts
from kiln.adapters.octavia.shared import SharedComputes
from kiln.exceptions import ConfigurationError, DriverNotFound, OperationRejected

ROOT = pathlib.Path(__file__).parents[4]

#: A worker like Octavia's: it forks after its parent has used the backend, and
#: while a thread of the parent is opening another backend.
FORKING = """
import os, sys
from oslo_config import cfg
from kiln.adapters.octavia.shared import SHARED

conf = cfg.ConfigOpts()
conf([], default_config_files=[])
parents = SHARED.get('noop', conf)
parents.build(name='of-the-parent').result()
with SHARED._lock:
    child = os.fork()
if child == 0:
    own = SHARED.get('noop', conf)
    own.build(name='of-the-child').result(timeout=120)
    names = [amphora.name for amphora in own.list_amphorae().result(timeout=120)]
    print(own is not parents, names, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print(SHARED.get('noop', conf) is parents, parents.list_amphorae().result()[0].name, status)
"""


class SharedTest(unittest.TestCase):
    def setUp(self):
        self.shared = SharedComputes()
        self.addCleanup(self.shared.close)

    def conf(self, text=''):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / 'octavia.conf').write_text(text)
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[str(folder / 'octavia.conf')])
        return conf


class Sharing(SharedTest):
    def test_all_threads_share_one_facade(self):
        conf, found, start = self.conf(), [], threading.Barrier(8)

        def ask():
            start.wait()
            found.append(self.shared.get('noop', conf))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((8, 1), (len(found), len(set(map(id, found)))))

    def test_a_closed_facade_refuses_calls_and_the_next_facade_is_new(self):
        conf = self.conf()
        first = self.shared.get('noop', conf)
        self.shared.close()
        with self.assertRaises(OperationRejected):
            first.build()
        self.assertIsNot(first, self.shared.get('noop', conf))

    def test_an_unfinished_build_is_kept_if_another_worker_continues_its_flow(self):
        for resumed in (True, False):
            with self.subTest(resumed=resumed):
                conf = self.conf(
                    '[compute:noop]\nfaults = build:stuck\n'
                    f'[task_flow]\njobboard_enabled = {resumed}\n'
                )
                conf.register_opts([cfg.BoolOpt('jobboard_enabled')], 'task_flow')
                compute = self.shared.get('noop', conf)
                seen = threading.Event()
                compute.build(until='active', on_status=lambda _, seen=seen: seen.set())
                self.assertTrue(seen.wait(60))
                self.shared.close()
                self.assertEqual(resumed, bool(compute.driver.cloud.count()))

    def test_a_child_process_has_its_own_facade_and_the_parent_keeps_its_facade(self):
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', FORKING],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        self.assertEqual(
            ["True ['of-the-child']", 'True of-the-parent 0'],
            done.stdout.splitlines(),
            done.stderr,
        )


class Opening(SharedTest):
    def test_a_simulated_cloud_accepts_any_flavor_and_zone_unless_its_group_lists_them(self):
        noop = self.shared.get('noop', self.conf('[compute:noop]\nflavors = f1\n'))
        catalogue = noop.driver.cloud.catalogue
        self.assertEqual((['f1'], None), (catalogue.flavors, catalogue.zones))

    def test_amphorae_of_octavia_have_their_own_owner(self):
        self.assertEqual('octavia', self.shared.get('noop', self.conf()).driver.owner)
        self.shared.close()
        other = self.shared.get('noop', self.conf('[compute]\nowner = lb-east\n'))
        self.assertEqual('lb-east', other.driver.owner)

    def test_another_backend_is_configured_only_by_its_group(self):
        conf = self.conf('[kiln]\nbackend = east\n[compute:east]\ndriver = noop\n')
        east = self.shared.get(None, conf)
        self.assertEqual('east', east.name)
        self.assertIn('tiny', east.driver.cloud.catalogue.flavors)

    def test_a_call_does_not_outlast_a_long_outage(self):
        conf = self.conf('[compute:noop]\nwatch_interval = 7\n')
        self.shared.get('noop', conf)
        values = conf['compute:noop']
        self.assertEqual((120.0, 7.0), (values.call_timeout, values.watch_interval))

    def test_the_backend_must_be_configured(self):
        with self.assertRaisesRegex(ConfigurationError, r'\[kiln\] backend'):
            self.shared.get(None, self.conf())

    def test_a_backend_that_failed_to_open_is_opened_again(self):
        with self.assertRaises(DriverNotFound):
            self.shared.get(None, self.conf('[kiln]\nbackend = east\n'))
        conf = self.conf('[kiln]\nbackend = east\n[compute:east]\ndriver = noop\n')
        self.assertEqual('east', self.shared.get(None, conf).name)


class Options(unittest.TestCase):
    def test_every_option_has_a_help_text(self):
        ((group, opts),) = list_opts()
        self.assertEqual('kiln', group.name)
        self.assertTrue(all(opt.help for opt in opts))
