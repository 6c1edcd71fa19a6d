"""An ssh server on loopback with its own keys, in front of an engine."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

#: A directory that sshd needs at start; elsewhere its service creates it.
PRIVILEGES = pathlib.Path('/run/sshd')
READY_S = 120.0

SERVER = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
MaxStartups 10:100:10
SetEnv DOCKER_HOST={engine}
"""
CLIENT = """
IdentityFile {identity}
IdentitiesOnly yes
UserKnownHostsFile {known}
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
"""


class Sshd:
    """A server that accepts one key; ``engine`` is the engine's address for its users."""

    def __init__(self, folder, engine):
        self.folder = folder
        self.port = _free_port()
        for name in ('host', 'user', 'stranger'):
            subprocess.run(
                ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', str(folder / name)],
                check=True,
            )
        (folder / 'known').write_text(self._known('host'))
        (folder / 'other').write_text(self._known('stranger'))
        (folder / 'none').write_text('')
        config = folder / 'sshd_config'
        config.write_text(SERVER.format(port=self.port, folder=folder, engine=engine))
        PRIVILEGES.mkdir(exist_ok=True)
        program = shutil.which('sshd', path=f'{os.environ["PATH"]}:/usr/sbin')
        assert program, 'openssh-server is not installed'
        self._log = folder / 'log'
        self._process = subprocess.Popen([program, '-D', '-E', str(self._log), '-f', str(config)])
        self._wait()

    def url(self, path=''):
        """Return the URL of the engine for kiln."""
        return f'ssh://127.0.0.1:{self.port}{path}'

    def client(self, *, known='known', identity='user'):
        """Return an ssh configuration with a key and a file of known hosts."""
        path = self.folder / f'client-{known}-{identity}'
        path.write_text(CLIENT.format(identity=self.folder / identity, known=self.folder / known))
        return str(path)

    def logins(self):
        """Return the number of successful logins."""
        return self._log.read_text().count('Accepted publickey')

    def stop(self):
        """Accept no further connections; open ones stay."""
        self._process.terminate()
        self._process.wait(READY_S)

    def _known(self, key):
        kind, public, *_ = (self.folder / f'{key}.pub').read_text().split()
        return f'[127.0.0.1]:{self.port} {kind} {public}\n'

    def _wait(self):
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            try:
                with socket.create_connection(('127.0.0.1', self.port), 1):
                    return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise AssertionError('sshd does not start')


def _free_port():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        return free.getsockname()[1]
