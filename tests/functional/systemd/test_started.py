"""The unit of the conductor, started by a systemd of its own in a bare machine."""

import json
import pathlib
import shutil
import tempfile
import time
import unittest

from tests.functional.systemd.machine import REPOSITORY, machine

UNIT = 'kiln-conductor'
EXAMPLES = REPOSITORY / 'doc/examples/systemd'
SOURCES = ('LICENSE', 'MANIFEST.in', 'README.rst', 'pyproject.toml', 'setup.cfg', 'setup.py')
PATIENCE_S = 120.0
#: Seconds from SIGTERM to the end of a conductor.
LONGEST_END_S = 5.0

INSTALL = """
python3 -m venv /opt/kiln
/opt/kiln/bin/pip install -qq --no-compile '/srv/kiln[clusters]'
ln -s /opt/kiln/bin/kiln /usr/local/bin/kiln
"""
#: As doc/source/admin/conductors.rst says.
SET_UP = """
useradd --system --home-dir /var/lib/kiln --shell /usr/sbin/nologin kiln
install -d -m 755 /etc/kiln
install -d -m 700 /etc/kiln/secrets /var/lib/kiln
install -m 640 -g kiln /srv/kiln.conf /etc/kiln/kiln.conf
KILN_DB__KEY_FILE=/etc/kiln/kiln.keys kiln --config-file /etc/kiln/kiln.conf db rotate-key
install -m 644 /srv/systemd/kiln-conductor.service /etc/systemd/system/
# What the clusters of this test need.
install -m 600 /srv/mesh-key /etc/kiln/secrets/mesh-key
install -D -m 755 /srv/reader /etc/kiln/hooks.d/pre_create/10-reader
cp -r /srv/drivers /etc/kiln/drivers
useradd --system hooks
"""
CONFIGURATION = """
[db]
url = sqlite:////var/lib/kiln/kiln.db
[compute]
default_backend = play
owner = site
[compute:play]
driver = noop
path = /var/lib/kiln/cloud.db
build_s = 0.5
"""
DRIVER = """
name: keyed_v1
version: 1.0.0
provides:
  - {server_type: '*', os: '*', coe: keyed}
parameters:
  key: {secret: true, required: true, help: Name of the secret of all nodes.}
user_data: start.sh
"""
#: Needs the keys of kiln for the token, and a secret of the site.
START = """#!/bin/sh
KEY={{ key | shell }}
TOKEN={{ node.join_token | shell }}
"""
#: A hook that says its user, and if it can read what others must not.
READER = """#!/bin/sh
touch kept && mkdir -m 1777 sticky && ln -s / sticky/link || exit 1
read=$(cat /var/lib/kiln/*.db /run/credentials/*/* /etc/kiln/secrets/* 2>/dev/null | wc -c)
[ "$read" -gt 0 ] && echo "it reads $read bytes" >/dev/stderr && exit
printf '{"status": "Success", "message": "%s reads nothing"}' "$(id -un)" >/dev/stdout
"""
CLUSTER = """
cluster: {name}
coe: keyed
parameters: {{key: mesh-key}}
nodegroups:
  - {{name: work, flavor: small, image: debian-13, count: 2}}
"""


def given(folder: pathlib.Path) -> None:
    """Write what the machine gets."""
    kiln = folder / 'kiln'
    caches = shutil.ignore_patterns('__pycache__')
    shutil.copytree(REPOSITORY / 'kiln', kiln / 'kiln', ignore=caches)
    for name in SOURCES:
        shutil.copy2(REPOSITORY / name, kiln)
    shutil.copytree(EXAMPLES, folder / 'systemd')
    files = {
        'kiln.conf': CONFIGURATION,
        'reader': READER,
        'mesh-key': 'a secret of all nodes of a mesh',
        'drivers/keyed_v1/driver.yaml': DRIVER,
        'drivers/keyed_v1/templates/start.sh': START,
        **{f'{name}.yaml': CLUSTER.format(name=name) for name in ('web', 'shop', 'blog', 'late')},
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class StartedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        given(folder)
        cls.machine = cls.enterClassContext(machine(folder, INSTALL))
        cls.machine.run('sh', '-ec', SET_UP)

    def setUp(self):
        super().setUp()
        self.user = 'kiln'
        self.machine.run('systemctl', 'start', UNIT)
        self.addCleanup(self.machine.run, 'systemctl', 'stop', UNIT)

    def kiln(self, *words):
        """Run a command as an operator does on a host with the unit; return what it prints."""
        credentials = ('kiln.keys', 'secrets')
        return self.machine.run(
            *('systemd-run', '--quiet', '--pipe', '--wait', '--collect'),
            f'--uid={self.user}',
            *(f'--property=LoadCredential={one}:/etc/kiln/{one}' for one in credentials),
            *('kiln', '--config-file', '/etc/kiln/kiln.conf', *words),
        ).stdout

    def until(self, name, state):
        """Return a cluster once the conductor has brought it to a state; None is gone."""
        ends_at = time.monotonic() + PATIENCE_S
        while True:
            every = json.loads(self.kiln('cluster', 'list', '-f', 'json'))
            found = next((one for one in every if one['name'] == name), {})
            if found.get('state') == state:
                return found
            if time.monotonic() > ends_at:
                self.fail(f'{name} is not {state}: {found}\n{self.log()}')
            time.sleep(0.3)

    def override(self, text):
        """Start the service with more settings, until the end of the test."""
        folder = f'/run/systemd/system/{UNIT}.service.d'
        begin = f'mkdir -p {folder}; cat >{folder}/test.conf'
        self.machine.run('sh', '-ec', begin, input=text)
        end = f'rm -r {folder}; systemctl daemon-reload'
        self.addCleanup(self.machine.run, 'sh', '-ec', end)
        self.machine.run('sh', '-ec', f'systemctl daemon-reload; systemctl restart {UNIT}')

    def stop(self):
        """Stop the service; return how long it took."""
        begun = time.monotonic()
        self.machine.run('systemctl', 'stop', UNIT)
        return time.monotonic() - begun

    def properties(self, *names):
        wanted = f'--property={",".join(names)}'
        lines = self.machine.run('systemctl', 'show', UNIT, wanted).stdout.splitlines()
        return dict(line.split('=', 1) for line in lines)

    def log(self):
        return '\n'.join(str(one.get('MESSAGE')) for one in self.machine.journal(UNIT))

    def test_the_unit_as_shipped_builds_a_cluster_and_ends_in_time(self):
        self.kiln('up', '--no-wait', '/srv/web.yaml')
        found = self.until('web', 'ready')
        self.assertEqual('2/2', found['ready'])
        self.assertLess(self.stop(), LONGEST_END_S)
        names = ('Result', 'ExecMainStatus', 'NRestarts', 'ActiveState')
        ended = {
            'Result': 'success', 'ExecMainStatus': '0', 'NRestarts': '0',
            'ActiveState': 'inactive',
        }  # fmt: skip
        self.assertEqual(ended, self.properties(*names))
        log = self.log()
        self.assertIn('Working on clusters', log)
        # Hooks run, too.
        self.assertRegex(log, r'Hook pre_create/reader \(.*\) answered ok')
        for refused in ('Operation not permitted', 'SIGSYS', 'ERROR', 'Traceback'):
            self.assertNotIn(refused, log)

    def test_a_conductor_makes_no_system_call_that_the_unit_refuses(self):
        # As shipped, a call that is refused is an error that a program can ignore.
        self.override(
            '[Service]\nSystemCallErrorNumber=kill\n'
            "ExecStartPre=/bin/sh -c 'chroot / true; echo chroot ended with $$?'\n"
        )
        self.kiln('up', '--no-wait', '/srv/shop.yaml')
        self.until('shop', 'ready')
        self.kiln('cluster', 'delete', '--yes', '--no-wait', 'shop')
        self.until('shop', None)
        self.stop()
        self.assertEqual(
            {'Result': 'success', 'NRestarts': '0'}, self.properties('Result', 'NRestarts')
        )
        self.assertNotIn('31/SYS', self.log())
        # That is SIGSYS: what is refused is killed.
        self.assertIn('chroot ended with 159', self.log())

    def test_with_the_override_hooks_run_as_a_user_that_can_read_no_secret(self):
        text = (EXAMPLES / 'hooks-user.conf').read_text()
        self.user = 'root'
        self.override(f'{text}Environment=KILN_HOOKS__USER=hooks\n')
        self.kiln('up', '--no-wait', '/srv/blog.yaml')
        self.until('blog', 'ready')
        self.assertIn('answered ok: hooks reads nothing', self.log())
        left = self.machine.run('sh', '-c', 'ls /tmp/systemd-private-*-kiln-conductor*/tmp').stdout
        self.assertNotIn('kiln-hook-', left)

    def test_systemd_restarts_a_conductor_that_stands_still(self):
        # As shipped it takes a minute.
        self.override('[Service]\nWatchdogSec=3\nRestartSec=0\n')
        names = ('Type', 'ActiveState', 'NRestarts')
        working = {'Type': 'notify', 'ActiveState': 'active', 'NRestarts': '0'}
        self.assertEqual(working, self.properties(*names))
        self.assertIn('Working on 0 clusters', self.properties('StatusText')['StatusText'])
        before = self.properties('MainPID')
        self.machine.run('systemctl', 'kill', '--kill-who=main', '--signal=STOP', UNIT)
        ends_at = time.monotonic() + PATIENCE_S
        while self.properties(*names) != working | {'NRestarts': '1'}:
            if time.monotonic() > ends_at:
                self.fail(self.log())
            time.sleep(0.3)
        self.assertNotEqual(before, self.properties('MainPID'))
        self.assertIn('Watchdog timeout', self.log())
        # It shows where the former one was.
        self.assertIn('Fatal Python error: Aborted', self.log())
        self.kiln('up', '--no-wait', '/srv/late.yaml')
        self.until('late', 'ready')
