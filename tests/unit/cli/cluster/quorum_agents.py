"""Agents of quorum_v1: what its image would run on each machine, in this process."""

import http.server
import json
import threading


class Agents:
    """Agents at several addresses and one port; each takes the token that it was given.

    ``given`` returns what the machine at an address has in its file, or None.
    """

    def __init__(self, addresses, given):
        self.given = given
        #: By token of a machine: the key that it uses.
        self.members = {}
        #: The members that count for the quorum: name and token.
        self.counted = {}
        self.founded = 0
        #: Names of members that do not leave.
        self.busy = set()
        self._servers = []
        port = 0
        for address in addresses:
            server = http.server.HTTPServer((address, port), _Handler)
            server.agents = self
            port = server.server_port
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.port = port

    def close(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def answer(self, address, token, path, content):
        """Return the status and the answer to one request."""
        mine = self.given(address)
        if mine is None or token != f'Bearer {mine["token"]}':
            return 403, {}
        if path == '/cluster':
            return 200, {'members': sorted(self.counted), 'entries': 12}
        if path == '/member':
            return 200, self._member(mine, content)
        self._told(mine['token'], path, content)
        return 200, {}

    def _member(self, mine, content):
        name, mark = mine['member'], mine['token']
        match content:
            case {'join': leader}:
                if leader is None:
                    self.founded += 1
                    self.counted = {name: mark}
                if self.counted.get(name) == mark:
                    self.members[mark] = mine['key']
            case {'leave': True} if name not in self.busy:
                self.counted.pop(name, None)
        joined = self.counted.get(name) == mark and mark in self.members
        return {'joined': joined, 'left': name not in self.counted}

    def _told(self, mark, path, content):
        match path.split('/')[1:], content:
            case ['members', other], {'token': admitted}:
                self.counted[other] = admitted
            case ['members'], list(names):
                self.counted = {one: self.counted[one] for one in names if one in self.counted}
            case ['key'], key:
                self.members[mark] = key


class _Handler(http.server.BaseHTTPRequestHandler):
    def _respond(self):
        length = int(self.headers['Content-Length'] or 0)
        content = json.loads(self.rfile.read(length)) if length else None
        address = self.server.server_address[0]
        token = self.headers['Authorization']
        status, answer = self.server.agents.answer(address, token, self.path, content)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = _respond  # noqa: N815  # named by the library

    def log_message(self, *args):
        """Say nothing."""
