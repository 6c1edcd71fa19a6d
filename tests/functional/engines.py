"""The real container engines that functional tests run on.

Their folder is KILN_ENGINE_HOME (see tools/devengine). The first test that needs an engine
starts it, unless it runs already; the process that started it stops it after the tests.
An engine that cannot start is a failure, never a skipped test.
"""

import atexit
import fcntl
import functools
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import docker

from tools.devengine.place import Place, default_home

ROOT = pathlib.Path(__file__).parents[2]
COMMAND_S = 600
STOPPED = 3
#: Attempts to create a network that can fail because of another engine.
_TRIES = 9
#: The command of a plain container, which exits at SIGTERM.
COMMAND = ('/bin/sh', '-c', 'trap "exit 0" TERM; echo up; while :; do sleep 3600 & wait; done')


def run(kind, *arguments, check=True):
    """Run a command of the development engine, such as `up` or `down`."""
    given = ['--podman'] if kind == 'podman' else []
    done = subprocess.run(
        [sys.executable, '-m', 'tools.devengine', *arguments, *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f'devengine {" ".join(arguments)}: {done.stderr}')
    return done


@functools.cache
def engine(kind='docker'):
    """Return the place of an engine that is up, for this run of the tests."""
    place = Place(default_home(), kind)
    _claim(place.home, kind)
    run(kind, 'up')
    return place


@functools.cache
def _claim(home, kind):
    # Two runs would end each other's engines, so the second one waits.
    home.mkdir(parents=True, exist_ok=True)
    lock = os.open(home / f'{kind}.tests.lock', os.O_CREAT | os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if run(kind, 'status', check=False).returncode == STOPPED:
        atexit.register(run, kind, 'down', check=False)


def make_network(client, name, labels=None):
    """Create a network with a subnet, on which addresses can be chosen.

    Only the engine knows which subnet is free, so it first creates a network of its choice.
    """
    tried = create_network(client, name)
    subnet = client.inspect_network(tried)['IPAM']['Config'][0]['Subnet']
    client.remove_network(tried)
    pool = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=subnet)])
    return create_network(client, name, ipam=pool, labels=labels)


def create_network(client, name, **more):
    """Create a network, also while another engine changes the firewall of this machine.

    One of the two can then fail: it removes a rule that the other has just removed.
    """
    for _ in range(_TRIES):
        try:
            return client.create_network(name, **more)['Id']
        except docker.errors.APIError as exc:
            if 'iptables failed' not in str(exc):
                raise
    return client.create_network(name, **more)['Id']


def packed(files, mode=0o644):
    """Return an archive of files, given by their paths in a container."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode='w') as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name.lstrip('/'))
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def plain_tar(path):
    """Write the root file system of a plain container: one static shell."""
    busybox = shutil.which('busybox')
    assert busybox, 'busybox-static is not installed'
    with tarfile.open(path, 'w') as tar:
        for folder in ('bin', 'etc', 'root', 'tmp', 'var'):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        tar.add(busybox, 'bin/busybox', filter=lambda member: member)
        for name in ('cat', 'echo', 'id', 'ls', 'ping', 'sh', 'sleep', 'stat', 'test', 'wget'):
            member = tarfile.TarInfo(f'bin/{name}')
            member.type, member.linkname = tarfile.SYMTYPE, 'busybox'
            tar.addfile(member)
        accounts = b'root:x:0:0::/root:/bin/sh\nweb:x:33:44::/:/bin/sh\n'
        groups = b'root:x:0:\nwww:x:44:\n'
        for name, content in (('passwd', accounts), ('group', groups)):
            member = tarfile.TarInfo(f'etc/{name}')
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
