"""Heat's REST API, played over HTTP: what kiln asks of it, as the real Heat answers.

The real Heat is a cloud of ten services that takes minutes to start, and cannot be told to
lose a request or to fail a certain resource. Its answers here are those of Heat 27: 409 for
a name that is taken, 202 for what is done later, tags in lists, a deleted stack by its id.
The tests in tests/functional/heat play the same behaviours on the real one.
"""

import collections
import contextlib
import copy
import http.server
import itertools
import json
import threading
import urllib.parse
import uuid

from tests.unit.cluster_drivers.heat.fake_rows import (
    GROUP,
    SERVER,
    failed_resources,
    resources,
    template_of,
)

#: Seconds that each piece of work takes.
WORK_S = 12.0
_PAGE = 1000


class Refusal(Exception):
    """An error of Heat, as its faults are written."""

    def __init__(self, status, kind, message):
        super().__init__(message)
        self.status = status
        self.body = {
            'code': status, 'title': kind, 'explanation': 'no',
            'error': {'type': kind, 'message': message, 'traceback': None},
        }  # fmt: skip


class FakeHeat:
    """Stacks in memory; they are worked on while :meth:`work` is called."""

    def __init__(self):
        self.stacks = {}
        self.gone = {}
        #: The requests so far, as (method, path).
        self.requests = []
        #: What is to go wrong: Heat is away, cannot show stacks or events, drops the
        #: next update.
        self.away = self.blind = self.mute = self.drops = False
        #: True if the next creation gets no answer, and is worked off once a test lets it.
        self.queues = False
        self.queued = None
        #: Keys of answers that are left out.
        self.omitted = ()
        #: True once the engine of Heat was killed; the next request has another one go on.
        self.dead = False
        #: Why an update cannot be previewed.
        self.unforeseen = ''
        #: True if each piece of work is done at once.
        self.prompt = False
        #: True if a removed index is never kept.
        self.forgets = False
        self.refuses = None
        #: The token that is valid, once one was issued.
        self.token = None
        #: The project that credentials with a password lead to.
        self.project = 'p1'
        self._failure = ''
        self._lock = threading.RLock()

    # ---- the server ------------------------------------------------------------------

    def __enter__(self):
        handler = type('Handler', (_Handler,), {'heat': self})
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f'http://127.0.0.1:{self._server.server_port}/v1/project'
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # ---- what the tests ask ------------------------------------------------------------

    def fail(self, reason):
        """Have the next change that is accepted end in failure."""
        self._failure = reason

    def make(self, name, definition, **more):
        """Have a stack made by hand, without tags of kiln; return it once it stands."""
        body = {
            'stack_name': name, 'template': definition.template, 'files': definition.files,
            'parameters': dict(definition.params),
        }  # fmt: skip
        with self._lock:
            stack = self.stacks[self._create(body)[1]['stack']['id']]
            self._end(stack)
            stack.update(more)
            return stack

    def named(self, name):
        return next((one for one in self.stacks.values() if one['name'] == name), None)

    def work(self, seconds):
        """Let time pass for all stacks."""
        with self._lock:
            for stack in list(self.stacks.values()):
                if stack['status'] == 'IN_PROGRESS' and not self.dead:
                    work_on(stack)
                    stack['left_s'] -= seconds
                    if stack['left_s'] <= 0:
                        self._end(stack)

    def _end(self, stack):
        if stack['failure']:
            stack['status'], stack['reason'] = 'FAILED', f'Resource {stack["action"]} failed'
            if stack['action'] != 'DELETE':
                stack['broken'] = next(iter(expected(stack)), 'server')
            return
        stack['broken'] = None
        if stack['action'] == 'DELETE':
            stack['status'] = 'COMPLETE'
            stack['tags'] = []
            self.gone[stack['id']] = self.stacks.pop(stack['id'])
            return
        stack['status'], stack['reason'] = 'COMPLETE', f'Stack {stack["action"]} completed'
        former, stack['live'] = stack['live'], {}
        wanted = expected(stack)
        if not self.forgets:
            settle_groups(stack)
        for name, found in wanted.items():
            last = former.get(name)
            same = last and last['properties'] == found['properties']
            stack['live'][name] = last if same else {**found, 'id': str(uuid.uuid4())}

    # ---- the API -----------------------------------------------------------------------

    def answer(self, method, path, query, body):
        """Return the status and the JSON of an answer."""
        with self._lock:
            if self.refuses is not None:
                raise self.refuses
            parts = path.strip('/').split('/')[2:]
            if parts == ['stacks']:
                return self._list(query) if method == 'GET' else self._create(body)
            if parts[3:] == ['template']:
                return 200, template_of(self.stacks, parts[2])
            stack = self._stack(parts[1], parts[2])
            if method == 'PATCH':
                # What is not given stays as it was.
                files = {**stack['files'], **body['files']}
                body = {**body, 'parameters': stack['parameters'], 'files': files}
            if parts[3:]:
                found = self._part(parts[3], stack, query, body)
                return 200, {key: one for key, one in found.items() if key not in self.omitted}
            methods = {
                'GET': self._show, 'PUT': self._update, 'PATCH': self._update,
                'DELETE': self._delete,
            }  # fmt: skip
            return methods[method](stack, body)

    def _part(self, what, stack, query, body):
        """Return a part of a stack, or what an update would do."""
        if what == 'resources':
            return {what: failed_resources(stack) if 'status' in query else resources(stack)}
        if what == 'events':
            if self.mute:
                raise Refusal(500, 'Exception', 'the engine did not answer')
            return {what: events(stack, query)}
        if what == 'preview':
            if self.unforeseen:
                raise Refusal(400, 'StackValidationFailed', self.unforeseen)
            return {'resource_changes': changes(stack, body)}
        if what == 'environment':
            return {'parameters': {}, 'resource_registry': stack['registry']}
        return stack[what]

    def _stack(self, name, id_):
        stack = self.stacks.get(id_) or self.gone.get(id_)
        if stack is None or stack['name'] != name:
            raise Refusal(404, 'EntityNotFound', f'The Stack ({name}) could not be found.')
        return stack

    def _list(self, query):
        rows = [row(one) for one in self.stacks.values()]
        if 'tags' in query:
            rows = [one for one in rows if set(query['tags'].split(',')) <= set(one['tags'] or ())]
        if 'name' in query:
            rows = [one for one in rows if one['stack_name'] == query['name']]
        if 'show_nested' not in query:
            rows = [one for one in rows if not self.stacks[one['id']].get('parent')]
        start = 0
        if 'marker' in query:
            start = [one['id'] for one in rows].index(query['marker']) + 1
        return 200, {'stacks': rows[start : start + int(query.get('limit', _PAGE))]}

    def _show(self, stack, body):
        if self.blind:
            raise Refusal(500, 'Exception', 'the engine did not answer')
        found = row(stack)
        servers = sorted(name for name, one in stack['live'].items() if one['type'] == SERVER)
        nodes = {name: f'192.0.2.{n}' for n, name in enumerate(servers, 1)}
        known = {
            'nodes': nodes, 'worker_addresses': ['192.0.2.1'] * len(nodes),
            'names': {
                name.rpartition('.')[2]: '-'.join(one['properties']['name']['list_join'][1][1:])
                for name, one in stack['live'].items() if 'nodes.' in name
            },
        }  # fmt: skip
        declared = stack['template'].get('parameters', {})
        found['parameters'] = {
            name: '******' if declared[name].get('hidden') else str(value)
            for name, value in stack['parameters'].items()
        } | {'OS::stack_name': stack['name']}
        found['outputs'] = [
            {'output_key': key, 'output_value': by_index(one['value'], nodes) or known.get(key)}
            for key, one in stack['template'].get('outputs', {}).items()
        ]
        return 200, {'stack': found}

    def _create(self, body):
        if self.queues:
            self.queues, self.queued = False, body
            raise Refusal(504, 'MessagingTimeout', 'Timed out waiting for a reply')
        if self.named(body['stack_name']):
            message = f'The Stack ({body["stack_name"]}) already exists.'
            raise Refusal(409, 'StackExists', message)
        stack = {
            'id': str(uuid.uuid4()), 'name': body['stack_name'], 'live': {}, 'updated': None,
            'created': str(len(self.requests)), 'broken': None, 'members': {}, 'removed': {},
            'events': [], 'registry': {},
        }  # fmt: skip
        self.stacks[stack['id']] = stack
        self._begin(stack, 'CREATE', body)
        return 201, {'stack': {'id': stack['id'], 'links': []}}

    def _update(self, stack, body):
        if stack['action'] == 'DELETE':
            raise Refusal(
                400, 'NotSupported', 'Updating a stack when it is deleting is not supported.'
            )
        if self.drops:
            # Another update has won: Heat only logs that, and still answers 202.
            self.drops = False
            return 202, None
        stack['updated'] = str(len(self.requests))
        self._begin(stack, 'UPDATE', body)
        return 202, None

    def _begin(self, stack, action, body):
        self.dead = False
        stack.update(
            action=action, status='IN_PROGRESS', reason=f'Stack {action} started', left_s=WORK_S,
            failure=self._failure,
        )  # fmt: skip
        happens(stack)
        self._failure = ''
        if body is not None:
            # Heat keeps the limit of the last change that brought one.
            stack['timeout_mins'] = body.get('timeout_mins', stack.get('timeout_mins', 60))
            stack.update(
                template=body['template'], parameters=body['parameters'], files=body['files'],
                tags=body['tags'].split(',') if body.get('tags') else [],
            )  # fmt: skip
        if self.prompt:
            self._end(stack)

    def _delete(self, stack, body):
        if stack['id'] in self.gone:
            raise Refusal(404, 'EntityNotFound', f'The Stack ({stack["name"]}) was not found.')
        # What holds a stack holds it until somebody lets go of it.
        held = stack['failure'] if stack['action'] == 'DELETE' else ''
        self._failure = self._failure or held
        self._begin(stack, 'DELETE', None)
        return 204, None


def work_on(stack):
    """Have the next resource of a stack done, or one of them worked on for longer."""
    done = f'{stack["action"]}_COMPLETE'
    over = {one['path'] for one in stack['events'] if one['resource_status'] == done}
    path = next((name for name in expected(stack) if name not in over), '')
    happens(stack, path or 'server', 'COMPLETE' if path else 'IN_PROGRESS')


def happens(stack, path='', status='IN_PROGRESS', reason=''):
    """Add an event of a resource, or of the stack itself; members of groups are nested stacks."""
    parts, at, id_ = path.split('.'), stack['name'], stack['id']
    if len(parts) > 1:
        at = '-'.join([at, *(f'{part}-abcdefghijkl' for part in parts)])
        id_, path = f'{id_}-{path}', 'server'
    stack['events'].append({
        'id': f'{stack["id"]}-{len(stack["events"])}', 'path': '.'.join(parts),
        'resource_name': path or stack['name'],
        'physical_resource_id': '' if path else stack['id'],
        'resource_status': f'{stack["action"]}_{status}', 'resource_status_reason': reason,
        'links': [{'rel': 'stack', 'href': f'http://heat/v1/project/stacks/{at}/{id_}'}],
    })  # fmt: skip


def events(stack, query):
    """Return events as a request orders and limits them."""
    found = stack['events'][:: -1 if query['sort_dir'] == 'desc' else 1]
    if 'marker' in query:
        found = found[[one['id'] for one in found].index(query['marker']) + 1 :]
    return found[: int(query['limit'])]


def row(stack):
    """Return a stack as lists have it."""
    return {
        'id': stack['id'], 'stack_name': stack['name'],
        'stack_status': f'{stack["action"]}_{stack["status"]}',
        'stack_status_reason': stack['reason'], 'tags': stack['tags'] or None,
        'creation_time': stack['created'], 'updated_time': stack['updated'], 'links': [],
    }  # fmt: skip


def expected(stack):
    """Return the servers and ports that a stack is to have, those of groups among them."""
    found = {}
    for name, one in stack['template']['resources'].items():
        properties = _resolved(one.get('properties', {}), stack['template'], stack['parameters'])
        if one['type'] == GROUP:
            for number in members(stack, name, properties):
                inner = _indexed(properties['resource_def'], str(number))
                found[f'{name}.{number}'] = _member(stack, name, inner)
        else:
            found[name] = {'type': one['type'], 'properties': properties, 'group': name}
    return found


def members(stack, name, properties):
    """Return the indices of a group: the lowest ones that are not removed."""
    removed = [
        int(index)
        for policy in properties.get('removal_policies', ())
        for index in policy['resource_list']
    ]
    there = stack['members'].get(name)
    # As Heat does: what no member was is not removed, unless the group is new.
    if there is not None:
        known = there | stack['removed'].get(name, set())
        removed = [index for index in removed if index in known]
    candidates = (index for index in itertools.count() if index not in removed)
    return list(itertools.islice(candidates, int(properties['count'])))


def by_index(value, nodes):
    """Return the address of each member of a group by its index, if that is an output."""
    group, *path = value.get('get_attr', ['']) if isinstance(value, dict) else ['']
    found = {name.rpartition('.')[2]: ip for name, ip in nodes.items() if f'{group}.' in name}
    return found if path == ['attributes', 'address'] else None


def settle_groups(stack):
    """Note the members that the groups of a stack have, and those that are removed."""
    for name, one in stack['template']['resources'].items():
        if one['type'] == GROUP:
            properties = _resolved(one['properties'], stack['template'], stack['parameters'])
            there = set(members(stack, name, properties))
            last = max(there, default=0)
            stack['removed'][name] = {index for index in range(last) if index not in there}
            stack['members'][name] = there


def _member(stack, group, inner):
    """Return the server of a member, which a nested template can describe."""
    properties = inner.get('properties', {})
    if inner['type'] in stack['files']:
        nested = json.loads(stack['files'][inner['type']])
        (server,) = [one for one in nested['resources'].values() if one['type'] == SERVER]
        properties = _resolved(server['properties'], nested, properties)
    return {'type': SERVER, 'properties': properties, 'group': group}


def _indexed(value, index):
    if isinstance(value, dict):
        return {key: _indexed(one, index) for key, one in value.items()}
    return value.replace('%index%', index) if isinstance(value, str) else value


def _resolved(value, template, parameters):
    if isinstance(value, dict):
        if set(value) == {'get_param'}:
            return _param(
                _resolved(value['get_param'], template, parameters), template, parameters
            )
        return {key: _resolved(one, template, parameters) for key, one in value.items()}
    if isinstance(value, list):
        return [_resolved(one, template, parameters) for one in value]
    return value


def _param(path, template, parameters):
    name, *keys = [path] if isinstance(path, str) else path
    # Heat knows some by itself, such as the name of the stack.
    declared = template['parameters'].get(name, {'default': name})
    found = parameters.get(name, declared.get('default'))
    for key in keys:
        # A key that a map does not have is an empty text.
        found = found.get(key, '')
    return found


def changes(stack, body):
    """Return what an update would add, replace and delete."""
    after = expected({**copy.deepcopy(stack), **body, 'tags': []})
    kinds = collections.defaultdict(list)
    for name in {**stack['live'], **after}:
        now, then = stack['live'].get(name), after.get(name)
        if then is None:
            kind = 'deleted'
        elif now is None:
            kind = 'added'
        elif now['properties'] == then['properties']:
            kind = 'unchanged'
        else:
            networks = 'networks' in now['properties']
            moved = now['properties'].get('networks') != then['properties'].get('networks')
            kind = 'replaced' if networks and moved else 'updated'
        kinds[kind].append({'resource_name': name, 'resource_type': (then or now)['type']})
    return kinds


class _Handler(http.server.BaseHTTPRequestHandler):
    heat = None
    protocol_version = 'HTTP/1.1'
    # One packet for each answer: the second one would wait 40 ms for the client.
    disable_nagle_algorithm = True
    wbufsize = -1

    def _answer(self):
        length = int(self.headers.get('Content-Length') or 0)
        content = self.rfile.read(length)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.heat.requests.append((self.command, self.path))
        if self.heat.away:
            # As a proxy does whose Heat is gone.
            self._send(503, b'<html>nobody is here</html>', 'text/html')
            return
        if url.path == '/v3/auth/tokens':
            self.heat.token = str(uuid.uuid4())
            token = {'token': {
                'expires_at': '2999-01-01T00:00:00.000000Z', 'methods': [],
                'project': {'id': self.heat.project, 'name': 'p', 'domain': {'id': 'd'}},
            }}  # fmt: skip
            self._send(201, json.dumps(token).encode(), **{'X-Subject-Token': self.heat.token})
            return
        if self.heat.token and self.headers.get('X-Auth-Token') != self.heat.token:
            self._send(401, b'Authentication required', 'text/plain')
            return
        body = json.loads(content) if content else None
        try:
            status, found = self.heat.answer(self.command, url.path, query, body)
        except Refusal as exc:
            status, found = exc.status, exc.body
        self._send(status, b'' if found is None else json.dumps(found).encode())

    def _send(self, status, content, kind='application/json', **headers):
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header('Content-Type', kind)
            self.send_header('Content-Length', str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815  # names of http.server

    def log_message(self, *_):
        pass
