#!/usr/bin/python3
"""Makes a machine a node of the Swarm of its stack, and keeps it one.

cloud-init runs it once, which makes it a service. A node asks each manager for the tokens to
join, which are encrypted with the secret of the stack. The first manager founds the Swarm; as
numbers only grow, no manager that comes later is the first of those that it is told. The leader
removes nodes that stay down.
"""

import functools
import http.server
import ipaddress
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

NUMBER, ROLE, SECRET = '@number@', '@role@', '@secret@'
FORGET_AFTER_S = float('@forget_after@')
MANAGERS = '@managers@'

HOME = pathlib.Path('/var/lib/swarm-member')
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


def told_managers() -> dict[int, str]:
    """Return the IPv4 address of each manager by its number, as the stack had them at boot."""
    found = {}
    for number, addresses in json.loads(MANAGERS).items():
        texts = [one['ip_address'] for one in addresses]
        found[int(number)] = next(one for one in texts if ipaddress.ip_address(one).version == 4)
    return found


class Tokens(http.server.BaseHTTPRequestHandler):
    """Gives the encrypted tokens to all who ask."""

    encrypted = b''

    def do_GET(self) -> None:
        self.send_response(200 if self.encrypted else 503)
        self.end_headers()
        self.wfile.write(self.encrypted)

    def log_message(self, format: str, *_: object) -> None:
        """Log nothing."""


class Member:
    """This machine, as a member of the Swarm."""

    def __init__(self) -> None:
        HOME.mkdir(mode=0o700, exist_ok=True)
        self._known = HOME / 'managers.json'
        # When each node was first seen to be down.
        self._down: dict[str, float] = {}
        self._serves = False

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
            remote = [one['Addr'].rpartition(':')[0] for one in info['RemoteManagers'] or ()]
            self._known.write_text(json.dumps(remote))
            if info['ControlAvailable']:
                self.serve()
                self.forget()

    def join(self) -> None:
        """Join by the first manager that answers; found the Swarm if none can have."""
        told = told_managers()
        known = json.loads(self._known.read_text()) if self._known.exists() else []
        own = told.get(int(NUMBER)) if ROLE == 'manager' else None
        for address in dict.fromkeys([*known, *told.values()]):
            if address != own and (tokens := self.asked(address)):
                run('docker', 'swarm', 'join', '--token', tokens[ROLE], f'{address}:2377')
                return
        if own is not None and int(NUMBER) == min(told) and not known:
            run('docker', 'swarm', 'init', '--advertise-addr', own)

    def asked(self, address: str) -> dict[str, str] | None:
        """Return the tokens that a manager gives; None without an answer."""
        try:
            with urllib.request.urlopen(f'http://{address}:{TOKENS_PORT}/', timeout=3) as answer:
                tokens: dict[str, str] = json.loads(crypt(answer.read(), '-d'))
                return tokens
        except (OSError, ValueError, subprocess.CalledProcessError):
            return None

    def serve(self) -> None:
        """Have the tokens ready for other nodes."""
        token = functools.partial(run, 'docker', 'swarm', 'join-token', '--quiet')
        tokens = {role: token(role) for role in ('manager', 'worker')}
        Tokens.encrypted = crypt(json.dumps(tokens).encode())
        if not self._serves:
            server = http.server.ThreadingHTTPServer(('', TOKENS_PORT), Tokens)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._serves = True

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
