"""The HTTP API of an engine in memory, on loopback."""

import base64
import datetime
import http.server
import json
import re
import socketserver
import threading
import urllib.parse

from tests.functional.docker.simulated.engine import Engine
from tests.functional.docker.simulated.refusals import Refused

_VERSION = {'ApiVersion': '1.41', 'Version': '20.10', 'Components': [{'Name': 'Engine'}]}
_HEAD = b'\1\0\0\0'
_CHUNKED = {'Transfer-Encoding': 'chunked'}
#: Bytes of an archive that are sent at once.
_BLOCK = 512


class Server(http.server.ThreadingHTTPServer):
    """Serves one engine until it is closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self):
        super().__init__(('127.0.0.1', 0), _Visit)
        self.engine = Engine()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f'http://127.0.0.1:{self.server_address[1]}'

    def handle_error(self, request, client_address):
        """Print nothing: clients that go away are part of the tests."""

    def close(self):
        self.shutdown()
        self.server_close()


class _Visit(http.server.BaseHTTPRequestHandler, socketserver.StreamRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        """Log nothing."""

    def _serve(self):
        length = int(self.headers.get('Content-Length') or 0)
        self.body = self.rfile.read(length)
        parts = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(parts.query))
        self.every = urllib.parse.parse_qs(parts.query)
        path = re.sub(r'^/v[0-9.]+', '', urllib.parse.unquote(parts.path))
        try:
            status, headers, answer = self._answer(path)
        except Refused as exc:
            status, headers, answer = exc.status, {}, {'message': str(exc)}
        if not isinstance(answer, bytes):
            answer = b'' if answer is None else json.dumps(answer).encode()
            headers = {'Content-Type': 'application/json', **headers}
        self._send(status, headers, answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _send(self, status, headers, answer):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304) and 'Transfer-Encoding' not in headers:
            self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        if self.command != 'HEAD' and status not in (204, 304):
            self.wfile.write(answer)
        self.wfile.flush()

    def _answer(self, path):
        """Return status, headers and body for the request that is being served."""
        method = 'GET' if self.command == 'HEAD' else self.command
        for wanted, pattern, action in _ROUTES:
            found = re.fullmatch(pattern, path)
            if method == wanted and found:
                if action in _UNLOCKED:
                    answer = action(self, *found.groups())
                else:
                    with self.server.engine.lock:
                        answer = action(self, *found.groups())
                        answer = answer if isinstance(answer, tuple) else _shown(answer)
                return answer if isinstance(answer, tuple) else (200, {}, answer)
        raise Refused(404, 'page not found')

    # ---- what a request brings along ------------------------------------

    @property
    def engine(self):
        return self.server.engine

    @property
    def json(self):
        return json.loads(self.body or b'{}')

    @property
    def filters(self):
        return json.loads(self.query.get('filters', '{}'))

    # ---- actions with more than one line ----------------------------------

    def create(self):
        return 201, {}, self.engine.create(self.query['name'], self.json)

    def restart(self, name):
        self.engine.restart(name, int(self.query.get('t', 10)))
        return 204, {}, b''

    def events(self):
        found = self.engine.events(
            float(self.query['since']), float(self.query['until']), self.filters
        )
        # Only of an answer in chunks, clients expect more than one event.
        return 200, _CHUNKED, _chunks(json.dumps(one).encode() + b'\n' for one in found)

    def logs(self, name):
        lines = self.engine.container(name).log.splitlines(keepends=True)
        tail = self.query.get('tail', 'all')
        kept = lines if tail == 'all' else lines[len(lines) - min(int(tail), len(lines)) :]
        frames = (_HEAD + len(line).to_bytes(4) + line for line in kept)
        return 200, {}, b''.join(frames)

    def archive(self, name):
        packed, member = self.engine.pack(name, self.query['path'])
        told = {'name': member.name, 'size': member.size, 'mode': member.mode}
        stat = base64.b64encode(json.dumps(told).encode()).decode()
        blocks = (packed[at : at + _BLOCK] for at in range(0, len(packed), _BLOCK))
        return 200, {'X-Docker-Container-Path-Stat': stat, **_CHUNKED}, _chunks(blocks)

    def image(self, name):
        return {key: value for key, value in self.engine.image(name).items() if key != 'Files'}

    def images(self):
        return [{'Id': one['Id']} for one in self.engine.listed_images(self.filters)]

    def import_image(self):
        if self.query.get('fromSrc') != '-':
            raise Refused(500, _NO_REGISTRY)
        made = self.engine.import_image(
            self.body, self.query['repo'], self.query['tag'], self.every.get('changes', ())
        )
        return {'status': made}

    def connect(self, name):
        container = self.engine.container(self.json['Container'])
        config, others = self.json.get('EndpointConfig'), self.engine.containers.values()
        self.engine.networks.connect(name, container, config, others)

    def disconnect(self, name):
        container = self.engine.container(self.json['Container'])
        self.engine.networks.disconnect(name, container)

    def remove(self, name):
        volumes, force = (self.query.get(one) in ('1', 'True') for one in ('v', 'force'))
        self.engine.remove(name, volumes=volumes, force=force)
        return 204, {}, b''

    def create_volume(self):
        return 201, {}, self.engine.create_volume(self.json.get('Name'), self.json.get('Labels'))

    def unknown_distribution(self, _):
        raise Refused(500, _NO_REGISTRY)


def _chunks(blocks):
    return b''.join(b'%x\r\n%s\r\n' % (len(block), block) for block in (*blocks, b''))


def _shown(answer):
    # Written while the lock is held, as the state changes afterwards.
    return 200, {'Content-Type': 'application/json'}, json.dumps(answer).encode()


def _empty(action):
    def done(visit, name):
        action(visit, name)
        return 204, {}, b''

    return done


def _info(visit):
    return {
        'ServerVersion': '20.10', 'Name': 'simulated', 'CgroupVersion': '2', 'Driver': 'memory',
        'CgroupDriver': 'none', 'NCPU': visit.engine.cpus, 'MemTotal': 2**31,
        'SecurityOptions': [], 'SystemTime': datetime.datetime.now(datetime.UTC).isoformat(),
    }  # fmt: skip


_NO_REGISTRY = 'Get "https://registry-1.docker.io/v2/": dial tcp: no route to host'
_UNLOCKED = (_Visit.restart, _Visit.events)
_ONE, _ANY = r'([^/]+)', r'(.+)'
_ROUTES = (
    ('GET', '/_ping', lambda _: b'OK'),
    ('GET', '/version', lambda _: _VERSION),
    ('GET', '/info', _info),
    ('GET', '/events', _Visit.events),
    ('GET', '/containers/json', lambda visit: visit.engine.listed(visit.filters)),
    ('POST', '/containers/create', _Visit.create),
    ('GET', f'/containers/{_ONE}/json', lambda visit, name: visit.engine.container(name)),
    ('GET', f'/containers/{_ONE}/logs', _Visit.logs),
    ('GET', f'/containers/{_ONE}/archive', _Visit.archive),
    ('PUT', f'/containers/{_ONE}/archive', lambda visit, name: visit.engine.unpack(
        name, visit.body)),
    ('POST', f'/containers/{_ONE}/start', _empty(lambda visit, name: visit.engine.start(name))),
    ('POST', f'/containers/{_ONE}/restart', _Visit.restart),
    ('POST', f'/containers/{_ONE}/kill', _empty(lambda visit, name: visit.engine.kill(name))),
    ('POST', f'/containers/{_ONE}/pause', _empty(lambda visit, name: visit.engine.pause(name))),
    ('POST', f'/containers/{_ONE}/unpause', _empty(
        lambda visit, name: visit.engine.unpause(name))),
    ('DELETE', f'/containers/{_ONE}', _Visit.remove),
    ('GET', '/networks', lambda visit: visit.engine.networks.listed(visit.filters)),
    ('POST', '/networks/create', lambda visit: visit.engine.networks.create(visit.json)),
    ('GET', f'/networks/{_ONE}', lambda visit, name: visit.engine.networks.find(name)),
    ('DELETE', f'/networks/{_ONE}', _empty(lambda visit, name: visit.engine.networks.remove(
        name, visit.engine.containers.values()))),
    ('POST', f'/networks/{_ONE}/connect', _Visit.connect),
    ('POST', f'/networks/{_ONE}/disconnect', _Visit.disconnect),
    ('GET', '/volumes', lambda visit: {'Volumes': visit.engine.listed_volumes(visit.filters)}),
    ('POST', '/volumes/create', _Visit.create_volume),
    ('GET', f'/volumes/{_ONE}', lambda visit, name: visit.engine.volume(name)),
    ('DELETE', f'/volumes/{_ONE}', _empty(lambda visit, name: visit.engine.remove_volume(name))),
    ('GET', '/images/json', _Visit.images),
    ('POST', '/images/create', _Visit.import_image),
    ('GET', f'/images/{_ANY}/json', _Visit.image),
    ('POST', f'/images/{_ANY}/tag', lambda visit, name: visit.engine.tag(
        name, visit.query['repo'], visit.query['tag'])),
    ('DELETE', f'/images/{_ANY}', lambda visit, name: visit.engine.untag(name)),
    ('GET', f'/distribution/{_ANY}/json', _Visit.unknown_distribution),
)  # fmt: skip
