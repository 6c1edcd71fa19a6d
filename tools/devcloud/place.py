"""Location of a cloud: its folders, ports, names and password."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

from tools import command

from .errors import CloudError

HOST = '127.0.0.1'
PASSWORD = 'kiln'
REGION = 'RegionOne'

# The well-known ports; a cloud adds its base port to each.
PORTS = {
    'epmd': 4369,
    'heat': 8004,
    'ironic': 6385,
    'ironic_files': 6386,
    'glance': 9292,
    'keystone': 5000,
    'memcached': 1211,
    'neutron': 9696,
    'nova': 8774,
    'novnc': 6080,
    'octavia': 9876,
    'octavia_heartbeat': 5555,
    'placement': 8778,
    'rabbit': 5672,
    'rabbit_peers': 4370,
    'redfish': 8765,
}
# A socket's path must fit in 108 bytes, and the longest of ours adds 16.
LONGEST_HOME = 88
# Variables of the caller's shell must not change the cloud's behaviour.
FOREIGN = ('PYTHONDONTWRITEBYTECODE', 'PYTHONHOME', 'PYTHONPATH', 'VIRTUAL_ENV')


def default_home(environ: Mapping[str, str] = os.environ) -> pathlib.Path:
    """Return the folder that KILN_CLOUD_HOME names, or one in the user's state."""
    return command.default_home('KILN_CLOUD_HOME', 'kiln-devcloud', environ)


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders and ports of one cloud; several can exist side by side."""

    home: pathlib.Path
    base_port: int

    def __post_init__(self) -> None:
        if len(str(self.home)) > LONGEST_HOME:
            raise CloudError(f'{self.home}: a home of more than {LONGEST_HOME} characters')

    @property
    def etc(self) -> pathlib.Path:
        """Configuration, rewritten at each start."""
        return self.home / 'etc'

    @property
    def log(self) -> pathlib.Path:
        """One log for each process and each step of the installation."""
        return self.home / 'log'

    @property
    def run(self) -> pathlib.Path:
        """Sockets, and a pid file for each process."""
        return self.home / 'run'

    @property
    def data(self) -> pathlib.Path:
        """Databases, images, keys: all that a wipe deletes."""
        return self.home / 'data'

    @property
    def plugins(self) -> pathlib.Path:
        """The plugins for Nova and Neutron, on the path of every service."""
        return self.home / 'plugins'

    @property
    def clouds_yaml(self) -> pathlib.Path:
        """The clients' configuration."""
        return self.home / 'clouds.yaml'

    @property
    def golden(self) -> pathlib.Path:
        """The files of the snapshot; its tables lie in the database."""
        return self.data / 'golden'

    @property
    def seeded(self) -> pathlib.Path:
        """The ids that Octavia's configuration must contain."""
        return self.data / 'seeded.json'

    @property
    def wishes(self) -> pathlib.Path:
        """The options of the last `up`."""
        return self.home / 'wishes.json'

    @property
    def socket(self) -> pathlib.Path:
        """The socket of the database."""
        return self.run / 'mysql.sock'

    def port(self, name: str) -> int:
        """Return the port of a service."""
        return self.base_port + PORTS[name]

    def url(self, name: str) -> str:
        """Return the address of a service."""
        return f'http://{HOST}:{self.port(name)}'

    @property
    def keystone(self) -> str:
        """The address to authenticate at."""
        return self.url('keystone') + '/v3'

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of everything that runs here."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in FOREIGN
            and not name.startswith('OS_')
            and not name.lower().endswith('_proxy')
        }
        return {
            **kept,
            'PATH': f'{kept.get("PATH", "")}:/usr/sbin:/sbin',
            'PYTHONPATH': str(self.plugins),
            'PYTHONUNBUFFERED': '1',
            'PYTHONWARNINGS': 'ignore',
            'HOME': str(self.home),
            # Each thread's own arena would double the memory of these servers.
            'MALLOC_ARENA_MAX': '2',
            **more,
        }
