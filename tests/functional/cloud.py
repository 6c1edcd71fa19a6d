"""The real OpenStack that functional tests run on.

Its folder is KILN_CLOUD_HOME (see tools/devcloud). The first test that needs the cloud
starts it, unless it runs already; the process that started it stops it after the tests.
A cloud that cannot start is a failure, never a skipped test.
"""

import atexit
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import subprocess
import sys
import unittest
from typing import Any

from tools.devcloud.cli import STOPPED
from tools.devcloud.place import default_home

ROOT = pathlib.Path(__file__).parents[2]
COMMAND_S = 1800


@dataclasses.dataclass(frozen=True)
class Cloud:
    """A cloud that is up."""

    home: pathlib.Path

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of the development cloud, such as `reset` or `down nova-api`."""
        done = subprocess.run(
            [sys.executable, '-m', 'tools.devcloud', '--home', str(self.home), *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f'devcloud {" ".join(arguments)}: {done.stderr}')
        return done

    @property
    def clouds_yaml(self) -> pathlib.Path:
        """The configuration of its clients."""
        return self.home / 'clouds.yaml'

    def auth(self, name: str = 'kiln') -> dict[str, str]:
        """Return how to authenticate: `kiln` is the administrator, `kiln-user` is not."""
        auth: dict[str, str] = json.loads(self.clouds_yaml.read_text())['clouds'][name]['auth']
        return auth

    def session(self, name: str = 'kiln') -> Any:
        """Return a keystoneauth session."""
        # Only functional tests need it; other tests run without it.
        from keystoneauth1 import session
        from keystoneauth1.identity import v3

        return session.Session(v3.Password(**self.auth(name)))


def clean_cloud(*services: str) -> Cloud:
    """Return the cloud in the state of its snapshot, with these services beside Nova."""
    cloud = Cloud(default_home())
    _claim(cloud)
    cloud.run('up')
    # In this order: adding a service makes a new snapshot.
    cloud.run('reset')
    if services:
        cloud.run('up', '--with', ','.join(services))
    return cloud


@functools.cache
def _claim(cloud: Cloud) -> None:
    """Keep the cloud for this run of the tests, and end it if this run started it.

    Two runs would reset each other's servers, so the second one waits.
    """
    cloud.home.mkdir(parents=True, exist_ok=True)
    lock = os.open(cloud.home / 'tests.lock', os.O_CREAT | os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if cloud.run('status', check=False).returncode == STOPPED:
        # Also when `up` fails, and also after an interrupt.
        atexit.register(cloud.run, 'down', check=False)


@functools.cache
def shared_cloud(*services: str) -> Cloud:
    """Return the cloud for tests that do not need a clean or an exclusive one.

    With KILN_CLOUD_SHARED the cloud is up, and several test runs use it at the same time.
    """
    if 'KILN_CLOUD_SHARED' in os.environ:
        return Cloud(default_home())
    return clean_cloud(*services)


class CloudTestCase(unittest.TestCase):
    """A test class on the real OpenStack."""

    services: tuple[str, ...] = ()
    #: True if the class starts with a clean cloud, which takes some seconds.
    alone = True
    cloud: Cloud

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        opened = clean_cloud if cls.alone else shared_cloud
        cls.cloud = opened(*cls.services)
