#!/usr/bin/python3
"""Makes a machine a node of the Swarm of its stack, and keeps it one.

cloud-init runs it once, which makes it a service. A node asks all machines of its network for the
tokens to join, and managers answer with tokens that are encrypted with the secret of the stack.
The first manager founds the Swarm; as numbers only grow, no manager that comes later is the first
one. The leader removes nodes that stay down.
"""

import functools
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
LOOK_S = 3.0
ANSWER_S = 2.0


def run(*words: str) -> str:
    """Run a program; return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
            while True:
                answer, (address, _) = line.recvfrom(4096)
                try:
                    return address, json.loads(crypt(answer, '-d'))
                except (ValueError, subprocess.CalledProcessError):
                    # A manager of another Swarm on the network.
                    continue
        except OSError:
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

    def tend(self) -> None:
        """Do what the state of the engine asks for."""
        info = json.loads(run('docker', 'info', '--format', '{{json .Swarm}}'))
        state = info['LocalNodeState']
        if state == 'inactive':
            self.join()
        elif state == 'error':
            # The Swarm has forgotten this node while it was away.
            run('docker', 'swarm', 'leave', '--force')
        elif state == 'active':
            MEMBER.touch()
            if info['ControlAvailable']:
                self.serve()
                self.forget()

    def join(self) -> None:
        """Join by the first manager that answers; found the Swarm if there can be none."""
        found = asked()
        if found is not None:
            address, tokens = found
            own = ('--advertise-addr', own_address())
            run('docker', 'swarm', 'join', *own, '--token', tokens[ROLE], f'{address}:2377')
        elif is_founder() and not MEMBER.exists():
            run('docker', 'swarm', 'init', '--advertise-addr', own_address())

    def serve(self) -> None:
        """Have the tokens ready for other nodes."""
        token = functools.partial(run, 'docker', 'swarm', 'join-token', '--quiet')
        tokens = {role: token(role) for role in ('manager', 'worker')}
        if self._tokens is None:
            self._tokens = Tokens()
            self._tokens.start()
        self._tokens.encrypted = crypt(json.dumps(tokens).encode())

    def forget(self) -> None:
        """Remove nodes from the Swarm that have been down for long, if this is the leader."""
        lines = run('docker', 'node', 'ls', '--format', '{{json .}}').splitlines()
        nodes = [json.loads(line) for line in lines]
        down = {one['ID']: one for one in nodes if one['Status'] == 'Down'}
        now = time.monotonic()
        self._down = {id_: self._down.get(id_, now) for id_ in down}
        if not any(one['Self'] and one['ManagerStatus'] == 'Leader' for one in nodes):
            return
        for id_, node in down.items():
            if now - self._down[id_] >= FORGET_AFTER_S:
                if node['ManagerStatus']:
                    run('docker', 'node', 'demote', id_)
                run('docker', 'node', 'rm', '--force', id_)


def main() -> None:
    """Install this file if cloud-init runs it; else be a member for ever."""
    if pathlib.Path(__file__) != SELF:
        install()
        return
    member = Member()
    while True:
        try:
            member.tend()
        except subprocess.CalledProcessError as exc:
            print(' '.join(exc.cmd[:3]), exc.stderr, file=sys.stderr, flush=True)
        time.sleep(LOOK_S)


main()
