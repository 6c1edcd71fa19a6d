"""A site with a foreign cluster driver, on machines that keep what they are given."""

import shutil
import textwrap

from tests.unit.cli.cluster.driver_shell import write_driver
from tests.unit.cli.shell import Shell
from tests.unit.cli.site_shell import blank_state
from tests.unit.test_layering import ROOT

#: The drivers that authors copy.
MODELS = ROOT / 'doc' / 'examples' / 'cluster_drivers'
CONFIG = """\
[compute]
default_backend = metal
owner = us
[compute:metal]
driver = appliance
inventory = {folder}/machines.toml
state_dir = {folder}/metal
probe_interval = 0.05
[db]
url = sqlite:///{folder}/state/kiln.db
[clusters]
driver_path = {folder}/drivers
lease = 5
quiesce = 0
{more}
"""
#: A machine of the pool keeps its user data, and prints it as its console.
MACHINE = """\
[machines.m{number}]
type = "bare_metal"
addresses = ["{network}.{number}"]
claim = ["{folder}/claim"]
console = ["{folder}/console"]
wipe = []
"""
CLUSTER = """\
cluster: web
coe: {coe}
server_type: bare_metal
nodegroups:
  - name: work
    count: {count}
"""


class MachinesShell(Shell):
    """Has ``driver`` to write a foreign driver, and ``given`` for the data of machines."""

    machines = 2
    #: The first three numbers of their addresses.
    network = '192.0.2'

    def setUp(self):
        super().setUp()
        self.secrets = self.folder / 'secrets'
        self.configure(f'[secrets]\ndirectory = {self.secrets}\n')
        self.drivers = self.folder / 'drivers'
        for folder in (self.folder / 'given', self.folder / 'files', self.secrets, self.drivers):
            folder.mkdir(mode=0o700)
        shutil.copytree(blank_state(), self.folder / 'state')
        self.program(
            'claim',
            f'cp user_data {self.folder}/given/$KILN_MACHINE\n'
            f'[ ! -f file-0 ] || cp file-0 {self.folder}/files/$KILN_MACHINE',
        )
        self.program('console', f'cat {self.folder}/given/$KILN_MACHINE')
        inventory = ''.join(
            MACHINE.format(folder=self.folder, network=self.network, number=number + 1)
            for number in range(self.machines)
        )
        (self.folder / 'machines.toml').write_text(inventory)

    def configure(self, more):
        self.config.write_text(CONFIG.format(folder=self.folder, more=more))

    def program(self, name, body):
        """Write what a machine runs: ``claim``, or ``console``."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\n{body}\n')
        path.chmod(0o755)

    def driver(self, name, yaml='', coe='web', **files):
        """Write a driver of a directory, without Python unless ``driver`` is its code."""
        folder = self.drivers / name
        (folder / 'templates').mkdir(parents=True)
        head = f'name: {name}\nversion: 1.0.0\nprovides: [["*", "*", {coe}]]\n'
        (folder / 'driver.yaml').write_text(head + textwrap.dedent(yaml))
        for file, text in files.items():
            (folder / 'templates' / file).write_text(textwrap.dedent(text))
        return folder

    def code(self, name, code, coe='web'):
        """Write a driver of a directory with code."""
        return write_driver(self.drivers / name, textwrap.dedent(code)).parent

    def model(self, name):
        """Install one of the models in the documentation."""
        shutil.copytree(MODELS / name, self.drivers / name)

    def page(self, more='', coe='web', count=1):
        path = self.folder / 'web.yaml'
        path.write_text(CLUSTER.format(coe=coe, count=count) + textwrap.dedent(more))
        return str(path)

    def keep(self, name, value, mode=0o600):
        """Put a secret into the store of the site."""
        path = self.secrets / name
        path.write_text(value)
        path.chmod(mode)

    def given(self):
        """Return what each machine that was claimed was given."""
        return {path.name: path.read_text() for path in (self.folder / 'given').iterdir()}

    def files(self):
        """Return the first file that each machine was given beside its user data."""
        return {path.name: path.read_text() for path in (self.folder / 'files').iterdir()}

    def stored(self):
        """Return all bytes that kiln keeps in files."""
        kept = (self.folder / 'state', self.folder / 'metal')
        paths = [path for folder in kept for path in folder.rglob('*') if path.is_file()]
        return b''.join(path.read_bytes() for path in paths)
