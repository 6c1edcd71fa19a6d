#!/usr/bin/python3
"""Makes a machine a node of the Swarm of its stack, and keeps it one.

cloud-init runs it once, which makes it a service. A node asks all machines of its network for the
tokens to join, and managers answer with tokens that are encrypted with the secret of the stack.
The first manager founds the Swarm; as numbers only grow, no manager that comes later is the first
one. The leader removes nodes that stay down.
"""

import http.client
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from typing import Any

NUMBER, ROLE, SECRET = '@number@', '@role@', '@secret@'
FORGET_AFTER_S = float('@forget_after@')
GONE = '@gone@'

#: There once this machine was in the Swarm: it never founds another one.
MEMBER = pathlib.Path('/var/lib/swarm-member')
SELF = pathlib.Path('/usr/local/sbin/swarm-member')
UNIT = """\
[Unit]
Description=Member of a Docker Swarm
After=docker.service

[Service]
ExecStart=/usr/local/sbin/swarm-member
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"""
INSTALL = (
    'apt-get',
    'install',
    '-y',
    '--no-install-recommends',
    'docker.io',
    'iptables',
    'openssl',
)
TOKENS_PORT = 2378
LOOK_S, SOON_S = 3.0, 0.5
ANSWER_S, MOST_ANSWERS = 1.0, 32


def run(*words: str) -> None:
    """Run a program that is to succeed."""
    subprocess.run(words, check=True)


class Line(http.client.HTTPConnection):
    """A connection to the engine of this machine."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect('/run/docker.sock')


def ask(method: str, path: str, body: Any = None) -> Any:
    """Return what the engine answers; raise OSError if it refuses, or does not answer."""
    # Not by the docker command: its arguments, tokens too, can be read by everyone here.
    line = Line('localhost', timeout=60)
    try:
        line.request(method, path, json.dumps(body), {'Content-Type': 'application/json'})
        answer = line.getresponse()
        content = answer.read()
    except http.client.HTTPException as exc:
        raise OSError(f'{method} {path}: {exc!r}') from exc
    finally:
        line.close()
    if answer.status >= 300:
        raise OSError(f'{method} {path}: {answer.status} {content.decode()}')
    return json.loads(content) if content.strip() else None


def crypt(text: bytes, *options: str) -> bytes:
    """Encrypt a text, or decrypt it with -d; raise if it is of another secret."""
    # By a descriptor: arguments can be read by everyone on the machine.
    reading, writing = os.pipe()
    os.write(writing, SECRET.encode())
    os.close(writing)
    words = ['openssl', 'enc', *options, '-a', '-A', '-aes-256-cbc', '-pbkdf2']
    try:
        return subprocess.run(
            [*words, '-pass', f'fd:{reading}'],
            input=text,
            capture_output=True,
            check=True,
            pass_fds=[reading],
        ).stdout
    finally:
        os.close(reading)


def install() -> None:
    """Install the engine if the image has none, and this file as a service."""
    while not (shutil.which('dockerd') and shutil.which('openssl')):
        # A newly started machine can be busy with upgrades, or without network.
        subprocess.run(['apt-get', 'update'], check=False)
        subprocess.run(
            INSTALL, env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}, check=False
        )
        time.sleep(5)
    SELF.write_text(pathlib.Path(__file__).read_text())
    SELF.chmod(0o700)
    pathlib.Path('/etc/systemd/system/swarm-member.service').write_text(UNIT)
    run('systemctl', 'daemon-reload')
    run('systemctl', 'enable', '--now', 'docker.service')
    run('systemctl', 'enable', 'swarm-member.service')
    # Not waited for: it may be that cloud-init itself has to end first.
    run('systemctl', 'start', '--no-block', 'swarm-member.service')


def own_address() -> str:
    """Return the address by which this machine reaches others; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect(('192.0.2.1', TOKENS_PORT))
        return str(way.getsockname()[0])


def is_founder() -> bool:
    """Return whether this is the manager with the lowest number that the stack has."""
    gone = {int(number) for number in json.loads(GONE)}
    first = next(number for number in itertools.count(1) if number not in gone)
    return ROLE == 'manager' and int(NUMBER) == first


def asked() -> tuple[str, dict[str, str]] | None:
    """Return the address of a manager, and its tokens; None if none answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        line.settimeout(ANSWER_S)
        try:
            line.sendto(b'tokens', ('255.255.255.255', TOKENS_PORT))
            # Not for ever, however many answer.
            for _ in range(MOST_ANSWERS):
                answer, (address, _) = line.recvfrom(4096)
                try:
                    return address, json.loads(crypt(answer, '-d'))
                except (ValueError, subprocess.CalledProcessError):
                    # A manager of another Swarm on the network.
                    continue
        except OSError:
            # None in time.
            pass
    return None


class Tokens(threading.Thread):
    """Gives encrypted tokens to all who ask."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.encrypted = b''
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.bind(('', TOKENS_PORT))

    def run(self) -> None:
        while True:
            _, who = self._line.recvfrom(64)
            if self.encrypted:
                self._line.sendto(self.encrypted, who)


class Member:
    """This machine, as a member of the Swarm."""

    def __init__(self) -> None:
        # When each node was first seen to be down.
        self._down: dict[str, float] = {}
        self._tokens: Tokens | None = None
        self._known: dict[str, str] = {}

    def tend(self) -> float:
        """Do what the state of the engine asks for; return the seconds until the next time."""
        swarm = ask('GET', '/info')['Swarm']
        state = swarm['LocalNodeState']
        if state == 'inactive':
            self.join()
            return SOON_S
        if state == 'error':
            # The Swarm has forgotten this node while it was away.
            ask('POST', '/swarm/leave?force=true')
            return SOON_S
        if state == 'active':
            MEMBER.touch()
            if swarm['ControlAvailable']:
                self.serve()
                self.forget(swarm['NodeID'])
        return LOOK_S

    def join(self) -> None:
        """Join by the first manager that answers; found the Swarm if there can be none."""
        own = {'ListenAddr': '0.0.0.0:2377', 'AdvertiseAddr': own_address()}
        found = asked()
        if found is not None:
            address, tokens = found
            remote = {'RemoteAddrs': [f'{address}:2377'], 'JoinToken': tokens[ROLE]}
            ask('POST', '/swarm/join', own | remote)
        elif is_founder() and not MEMBER.exists():
            ask('POST', '/swarm/init', own)

    def serve(self) -> None:
        """Have the tokens ready for other nodes."""
        tokens = ask('GET', '/swarm')['JoinTokens']
        known = {role: tokens[role.capitalize()] for role in ('manager', 'worker')}
        if self._tokens is None:
            self._tokens = Tokens()
            self._tokens.start()
        if known != self._known:
            self._tokens.encrypted = crypt(json.dumps(known).encode())
            self._known = known

    def forget(self, own_id: str) -> None:
        """Remove nodes from the Swarm that have been down for long, if this is the leader."""
        nodes = {one['ID']: one for one in ask('GET', '/nodes')}
        now = time.monotonic()
        self._down = {
            id_: self._down.get(id_, now)
            for id_, one in nodes.items()
            if one['Status']['State'] == 'down'
        }
        if not nodes[own_id].get('ManagerStatus', {}).get('Leader'):
            return
        for id_, since in self._down.items():
            if now - since >= FORGET_AFTER_S:
                node = nodes[id_]
                if node['Spec']['Role'] == 'manager':
                    version = node['Version']['Index']
                    spec = node['Spec'] | {'Role': 'worker'}
                    ask('POST', f'/nodes/{id_}/update?version={version}', spec)
                ask('DELETE', f'/nodes/{id_}?force=true')


def main() -> None:
    """Install this file if cloud-init runs it; else be a member for ever."""
    if pathlib.Path(__file__) != SELF:
        install()
        return
    member = Member()
    while True:
        pause_s = SOON_S
        try:
            pause_s = member.tend()
        except OSError as exc:
            print(exc, file=sys.stderr, flush=True)
        time.sleep(pause_s)


main()
