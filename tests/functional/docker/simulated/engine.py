"""Containers, volumes, images and events of an engine in memory."""

import collections
import datetime
import io
import itertools
import posixpath
import secrets
import shlex
import tarfile
import threading
import time

from tests.functional.docker.simulated.networks import Networks
from tests.functional.docker.simulated.refusals import Refused

#: As many as the real engine keeps.
_EVENTS = 256
#: Seconds that a restart takes.
_RESTART_S = 0.05
#: Files of an image that are longer are there, but empty.
_LONGEST = 1 << 16
_SIGNALLED, _NO_START = 137, 128


class Engine:
    """The state of one engine; each method is one request."""

    cpus = 2

    def __init__(self):
        self.lock = threading.RLock()
        self.networks = Networks()
        self.containers, self.volumes, self.images = {}, {}, {}
        self._events = collections.deque(maxlen=_EVENTS)
        self._order = itertools.count()

    # ---- containers ------------------------------------------------------

    def create(self, name, body):
        """Make a container, which does not run yet."""
        image = self.image(body['Image'])
        if taken := [one for one in self.containers.values() if one['Name'] == f'/{name}']:
            raise Refused(
                409,
                f'Conflict. The container name "/{name}" is already in use by container '
                f'"{taken[0]["Id"]}". You have to remove (or rename) that container to be able '
                'to reuse that name.',
            )
        host = body.get('HostConfig') or {}
        if host.get('NanoCpus', 0) > self.cpus * 10**9:
            raise Refused(400, f'range of CPUs is from 0.01 to {self.cpus}.00, as there are only '
                               f'{self.cpus} CPUs available')  # fmt: skip
        made = {
            'Id': secrets.token_hex(32), 'Name': f'/{name}', 'Created': _now(),
            'Image': image['Id'], 'HostConfig': host,
            'Config': {**body, 'Labels': {**image['Config']['Labels'], **body.get('Labels', {})}},
            'State': _state('created'),
            'NetworkSettings': {'Networks': self.networks.wanted(body)},
            'Mounts': [self._mounted(mount) for mount in host.get('Mounts') or ()],
        }  # fmt: skip
        self.containers[made['Id']] = Container(made, image['Files'], next(self._order))
        self._tell('create', made)
        return {'Id': made['Id'], 'Warnings': []}

    def container(self, name):
        """Return a container by its name, its id, or the beginning of its id."""
        for one in self.containers.values():
            if one['Name'] == f'/{name}' or one['Id'].startswith(name):
                return one
        raise Refused(404, f'No such container: {name}')

    def listed(self, filters):
        """Return what a list tells of the containers that fit, the newest first."""
        found = [one for one in self.containers.values() if self._fits(one, filters)]
        return [_entry(one) for one in sorted(found, key=lambda one: -one.number)]

    def _fits(self, container, filters):
        ids = {self.networks.find(name)['Id'] for name in filters.get('network', ())}
        hung = {one['NetworkID'] for one in container['NetworkSettings']['Networks'].values()}
        labels = container['Config']['Labels']
        return _has_labels(labels, filters) and (not ids or bool(ids & hung))

    def start(self, name):
        """Run a container; one that cannot run keeps the reason."""
        one = self.container(name)
        if one['State']['Status'] == 'running':
            raise Refused(304, '')
        try:
            self.networks.connect_all(one, self.containers.values())
        except Refused as exc:
            one['State'] = _state('created', _NO_START, str(exc))
            raise
        one['State'] = {**_state('running'), 'StartedAt': _now()}
        one.log += b'up\n'
        self._tell('start', one)

    def end(self, one, code):
        """Let the command of a container end."""
        self.networks.release(one)
        one['State'] = _state('exited', code)
        self._tell('die', one)

    def restart(self, name, grace_s):
        """End a container and run it again; the lock is not held meanwhile."""
        with self.lock:
            one = self.container(name)
            one.grace_s = grace_s
            if one['State']['Status'] in ('running', 'paused'):
                self._tell('kill', one)
                self.end(one, 0 if grace_s else _SIGNALLED)
                self._tell('stop', one)
        threading.Event().wait(_RESTART_S)
        with self.lock:
            self.container(one['Id'])
            self.start(one['Id'])
            self._tell('restart', one)

    def kill(self, name):
        """End a container by a signal."""
        one = self.container(name)
        self._must_run(one)
        self._tell('kill', one)
        self.end(one, _SIGNALLED)

    def pause(self, name):
        one = self.container(name)
        if one['State']['Status'] == 'paused':
            raise Refused(409, f'Container {one["Id"]} is already paused')
        self._must_run(one)
        one['State']['Status'] = 'paused'
        self._tell('pause', one)

    def unpause(self, name):
        one = self.container(name)
        if one['State']['Status'] != 'paused':
            raise Refused(500, f'Container {one["Id"]} is not paused')
        one['State']['Status'] = 'running'
        self._tell('unpause', one)

    def remove(self, name, *, volumes, force):
        """Remove a container, and its volumes if it should."""
        one = self.container(name)
        if one['State']['Status'] in ('running', 'paused'):
            if not force:
                raise Refused(409, f'You cannot remove a running container {one["Id"]}.')
            self.end(one, _SIGNALLED)
        del self.containers[one['Id']]
        for mount in one['Mounts'] if volumes else ():
            self.volumes.pop(mount['Name'], None)
        self._tell('destroy', one)

    def _must_run(self, one):
        if one['State']['Status'] != 'running':
            raise Refused(409, f'Container {one["Id"]} is not running')

    # ---- files -----------------------------------------------------------

    def unpack(self, name, packed):
        """Copy an archive into a container."""
        one = self.container(name)
        one.files = {**one.files, **_unpacked(packed)}

    def pack(self, name, path):
        """Return an archive of one file of a container, and the file."""
        found = self.container(name).files.get(posixpath.normpath(path))
        if found is None:
            raise Refused(404, f'Could not find the file {path} in container {name}')
        member, content = found
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode='w') as tar:
            tar.addfile(member, io.BytesIO(content))
        return packed.getvalue(), member

    # ---- volumes ---------------------------------------------------------

    def create_volume(self, name=None, labels=None):
        made = {'Name': name or secrets.token_hex(32), 'Labels': labels or {}, 'CreatedAt': _now()}
        return self.volumes.setdefault(made['Name'], made)

    def volume(self, name):
        if name not in self.volumes:
            raise Refused(404, f'get {name}: no such volume')
        return self.volumes[name]

    def remove_volume(self, name):
        self.volume(name)
        if name in self._used():
            raise Refused(409, f'remove {name}: volume is in use')
        del self.volumes[name]

    def listed_volumes(self, filters):
        return [
            one
            for one in self.volumes.values()
            if _has_labels(one['Labels'], filters)
            and ('dangling' not in filters or one['Name'] not in self._used())
        ]

    def _used(self):
        return {mount['Name'] for one in self.containers.values() for mount in one['Mounts']}

    def _mounted(self, mount):
        labels = (mount.get('VolumeOptions') or {}).get('Labels')
        made = self.create_volume(labels=labels)
        return {'Type': 'volume', 'Name': made['Name'], 'Destination': mount['Target']}

    # ---- images ----------------------------------------------------------

    def import_image(self, packed, repository, tag, changes):
        """Make an image from the files of its root, with labels and a command."""
        labels = {}
        for change in changes:
            kind, _, text = change.partition(' ')
            if kind == 'LABEL':
                (pair,) = shlex.split(text.replace('\\$', '$'))
                key, _, labels_text = pair.partition('=')
                labels[key] = labels_text
        made = {
            'Id': f'sha256:{secrets.token_hex(32)}', 'RepoTags': [], 'Created': _now(),
            'Config': {'Labels': labels}, 'Files': _unpacked(packed),
        }  # fmt: skip
        self.images[made['Id']] = made
        self.tag(made['Id'], repository, tag)
        return made['Id']

    def image(self, name):
        if found := self.images.get(name) or self.images.get(f'sha256:{name}'):
            return found
        full = name if ':' in name.rpartition('/')[2] else f'{name}:latest'
        for one in self.images.values():
            if full in one['RepoTags']:
                return one
        raise Refused(404, f'No such image: {full}')

    def tag(self, name, repository, tag):
        image, full = self.image(name), f'{repository}:{tag}'
        for one in self.images.values():
            one['RepoTags'] = [other for other in one['RepoTags'] if other != full]
        image['RepoTags'] = [*image['RepoTags'], full]

    def untag(self, name):
        image = self.image(name)
        full = name if ':' in name.rpartition('/')[2] else f'{name}:latest'
        image['RepoTags'] = [other for other in image['RepoTags'] if other != full]

    def listed_images(self, filters):
        return [
            one for one in self.images.values() if _has_labels(one['Config']['Labels'], filters)
        ]

    # ---- events ----------------------------------------------------------

    def _tell(self, action, one):
        at_ns = max(time.time_ns(), self._events[-1]['timeNano'] + 1 if self._events else 0)
        actor = {'ID': one['Id'], 'Attributes': dict(one['Config']['Labels'])}
        event = {'Type': 'container', 'Action': action, 'Actor': actor, 'timeNano': at_ns}
        self._events.append(event)

    def events(self, since, until, filters):
        """Return events of a time that is over."""
        threading.Event().wait(max(0.0, until - time.time()))
        with self.lock:
            return [
                one
                for one in self._events
                if since * 10**9 <= one['timeNano'] <= until * 10**9
                and one['Type'] in filters['type']
                and one['Action'] in filters['event']
                and _has_labels(one['Actor']['Attributes'], filters)
            ]


class Container(dict):
    """What an inspect tells of a container, and what only the engine knows."""

    def __init__(self, told, files, number):
        super().__init__(told)
        self.files, self.number = files, number
        self.log = b''
        #: Seconds that the last restart left its command to end.
        self.grace_s = None


def _state(status, exit_code=0, error=''):
    return {'Status': status, 'ExitCode': exit_code, 'Error': error, 'OOMKilled': False}


def _entry(one):
    moment = datetime.datetime.fromisoformat(one['Created'])
    return {
        'Id': one['Id'], 'Names': [one['Name']], 'Image': one['Config']['Image'],
        'ImageID': one['Image'], 'Created': int(moment.timestamp()),
        'Labels': one['Config']['Labels'], 'State': one['State']['Status'],
        'Status': 'Up 1 second', 'NetworkSettings': one['NetworkSettings'],
    }  # fmt: skip


def _has_labels(labels, filters):
    wanted = (text.partition('=') for text in filters.get('label', ()))
    return all(
        key in labels and (not equals or labels[key] == value) for key, equals, value in wanted
    )


def _unpacked(packed):
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            content = b''
            if member.isfile() and member.size <= _LONGEST:
                content = tar.extractfile(member).read()
            elif member.isfile():
                member.size = 0
            found[posixpath.normpath(f'/{member.name}')] = member, content
    return found


def _now():
    return datetime.datetime.now(datetime.UTC).isoformat()
