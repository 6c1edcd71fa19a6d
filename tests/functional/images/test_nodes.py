"""Node images: their content, and their boot on a real engine."""

import contextlib
import json
import pathlib
import socket
import tarfile
import tempfile
import time
import unittest
import uuid

import docker

from kiln.cli.site.image import image_file, references
from kiln.compute_drivers.docker.driver import DockerDriver
from tests.functional.docker.site import options_of
from tests.functional.engines import engine
from tests.functional.images.builds import BuildCase, contents, node_image

END_S = 600
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEb3Jv1mqlxbPwq0pzwKdrRyPxh5UZBYkU8kX9rGkHr6 test'
USER_DATA = """\
#cloud-config
write_files:
  - {path: /etc/docker/daemon.json, permissions: '0600', content: '{"labels": ["kiln.node=n"]}'}
runcmd:
  - [sh, -c, 'if [ -e /usr/sbin/dockerd ]; then systemctl enable --now docker.service; fi']
"""


class Contents(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.images = [node_image(name) for name in ('debian-node', 'swarm-node')]

    def test_an_image_contains_no_host_files_and_no_documentation(self):
        for image in self.images:
            found = contents(image)
            with self.subTest(image.name):
                self.assertEqual(0, found['/etc/machine-id'].size)
                for path in ('/etc/hostname', '/etc/resolv.conf', '/etc/apt/sources.list'):
                    self.assertNotIn(path, found)
                for folder, but in (
                    ('/etc/ssh/ssh_host_', ''),
                    ('/etc/apt/sources.list.d/', ''),
                    ('/usr/share/man/', ''),
                    ('/usr/share/doc/', '/copyright'),
                    ('/var/cache/apt/archives/', 'partial'),
                    ('/var/lib/apt/lists/', 'partial'),
                ):
                    files = [
                        path
                        for path, member in found.items()
                        if path.startswith(folder) and member.isfile()
                    ]
                    kept = ('/lock', but) if but else ('/lock',)
                    self.assertEqual([], [one for one in files if not one.endswith(kept)])

    def test_an_image_contains_sshd_cloud_init_and_systemd(self):
        for image in self.images:
            found = contents(image)
            with self.subTest(image.name):
                for path in ('/usr/sbin/sshd', '/usr/bin/cloud-init', '/usr/lib/systemd/systemd'):
                    self.assertTrue(path in found or path.replace('/usr/lib', '/lib') in found)
                masked = found['/etc/systemd/system/getty@tty1.service']
                self.assertEqual('/dev/null', masked.linkname)
                self.assertEqual(
                    (0, 0, 0o644), _rights(found['/etc/cloud/cloud.cfg.d/90_kiln.cfg'])
                )
                self.assertIn('cloud-init', image.packages)

    def test_the_engine_is_installed_but_not_enabled(self):
        found = contents(self.images[1])
        self.assertIn('/usr/sbin/dockerd', found)
        wants = [one for one in found if one.startswith('/etc/') and 'docker.' in one]
        self.assertEqual([], wants)


class Booting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = engine()
        cls.bare = docker.APIClient(base_url=cls.place.url, version='auto', timeout=END_S)
        cls.addClassCleanup(cls.bare.close)

    def setUp(self):
        super().setUp()
        #: Addresses of nodes by container ID.
        self.addresses = {}

    def driver(self):
        options = options_of(url=self.place.url, privileged=True, timeout=END_S)
        owner = f't-{uuid.uuid4().hex[:8]}'
        driver = DockerDriver.open(options, name='docker', owner=owner)
        self.addCleanup(driver.close)
        return driver

    def boot(self, image):
        """Boot a node as a controller would, and return its container ID."""
        driver = self.driver()
        for name in references(image):
            driver.import_image(image_file(image, name))
        amphora_id = driver.build(
            'container',
            image_id=f'kiln/{image.name}:latest',
            name=f'n-{uuid.uuid4().hex[:8]}',
            user_data=USER_DATA,
            keys=[KEY],
        )
        self.addCleanup(driver.delete, amphora_id)
        address = driver.get_amphora(amphora_id=amphora_id).addresses[0].address
        (found,) = self.bare.containers(
            all=True, filters={'label': [f'kiln.owner={driver.owner}']}
        )
        self.addresses[found['Id']] = address
        return found['Id']

    def said_in(self, node, *command):
        made = self.bare.exec_create(node, list(command))
        said = self.bare.exec_start(made['Id']).decode()
        return self.bare.exec_inspect(made['Id'])['ExitCode'], said

    def wait(self, node, *command):
        """Return the output of a command in a node, once it succeeds."""
        end = time.monotonic() + END_S
        while True:
            with contextlib.suppress(docker.errors.APIError):
                code, said = self.said_in(node, *command)
                if code == 0:
                    return said
                self.assertLess(time.monotonic(), end, said)
            time.sleep(0.2)

    def check_node(self, node):
        self.wait(node, 'test', '-e', '/run/cloud-init/result.json')
        result = json.loads(self.said_in(node, 'cat', '/run/cloud-init/result.json')[1])
        self.assertEqual([], result['v1']['errors'])
        self.assertIn('DataSourceNoCloud', result['v1']['datasource'])
        self.assertIn(KEY, self.wait(node, 'cat', '/root/.ssh/authorized_keys'))
        # cloud-init can finish before a busy machine starts the last service.
        self.wait(node, 'systemctl', 'is-active', 'ssh')
        with socket.create_connection((self.addresses[node], 22), timeout=END_S) as connection:
            self.assertTrue(connection.recv(64).startswith(b'SSH-2.0-OpenSSH'))
        self.assertEqual('', self.said_in(node, 'systemctl', '--failed', '--no-legend')[1])
        return self.said_in(node, 'cat', '/etc/machine-id')[1]

    def test_two_nodes_of_one_image_have_their_own_identities(self):
        image = node_image('debian-node')
        nodes = [self.boot(image) for _ in range(2)]
        self.assertEqual(2, len({self.check_node(node) for node in nodes}))
        keys = {
            self.said_in(node, 'cat', '/etc/ssh/ssh_host_ed25519_key.pub')[1] for node in nodes
        }
        self.assertEqual(2, len(keys))

    def test_the_seed_starts_the_engine_of_a_swarm_node_which_runs_a_container(self):
        node = self.boot(node_image('swarm-node'))
        self.check_node(node)
        labels = self.wait(node, 'docker', 'info', '-f', '{{json .Labels}} {{.Driver}}')
        self.assertEqual('["kiln.node=n"] overlay2', labels.strip())
        plain = node_image('plain-node')
        # put_archive takes a tar file, the only way to copy into a container.
        self.bare.put_archive(node, '/root', _packed(plain.path))
        self.wait(node, 'docker', 'import', f'/root/{plain.path.name}', 'plain:1')
        said = self.wait(node, 'docker', 'run', '--rm', 'plain:1', '/bin/echo', 'from within')
        self.assertEqual('from within', said.strip())


class Importing(BuildCase):
    def test_a_backend_imports_an_image_under_two_names(self):
        place = engine()
        with self.config.open('a') as config:
            config.write(f'[compute:engine]\ndriver = docker\nurl = {place.url}\n')
        process = self.command('image', 'build', 'plain-node', '--into', 'engine', '-f', 'json')
        said, told = process.communicate(timeout=END_S)
        self.assertEqual(0, process.returncode, told)
        *stages, image = map(json.loads, said.splitlines())
        self.assertEqual('importing', stages[-1]['stage'])
        bare = docker.APIClient(base_url=place.url, version='auto')
        self.addCleanup(bare.close)
        for name in (image['reference'], 'kiln/plain-node:latest'):
            found = bare.inspect_image(name)
            self.assertEqual('busybox', found['Config']['Labels']['kiln_distro'])
            self.assertEqual(image['command'], found['Config']['Cmd'])
            self.assertTrue(found['Id'].endswith(image['image_id'].rpartition(':')[2]))


def _rights(member):
    return member.uid, member.gid, member.mode


def _packed(path):
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode='w') as tar:
            tar.add(path, pathlib.Path(path).name)
        file.seek(0)
        return file.read()
