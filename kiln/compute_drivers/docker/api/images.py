"""Images of an engine: lookup, pull, description and import."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import names, translate
from kiln.compute_drivers.docker.api import errors
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.compute_drivers.docker.settings import Settings
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.foreign.answers import NotJson, parse_json
from kiln.models import ImageFacts, ImageFile

#: Seconds for which the details of an image are cached.
_TTL_S = 5.0
_BLOCK = 1 << 20
_LONGEST_SAID = 200


class Images:
    """The images of one engine, by name or id."""

    def __init__(self, engine: Engine, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._pull = settings.pull
        self._clock = clock
        # Threads share it without a lock, as each use is one operation of a dictionary.
        self._known: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def forget(self) -> None:
        """Drop the cache; each image is read again when it is next needed."""
        self._known.clear()

    def for_build(self, asked: Asked, name: str) -> Mapping[str, Any]:
        """Return the image of a build; pull it if the option ``pull`` says so.

        :raises InvalidBuildRequest: the image does not exist and cannot be pulled.
        """
        if self._pull == 'always' and names.is_image(name):
            self._fetch(asked, name)
        try:
            return self._local(asked, name)
        except InvalidRequest:
            if self._pull != 'missing' or not names.is_image(name):
                raise
        self._fetch(asked, name)
        return self._local(asked, name)

    def facts(self, asked: Asked, name: str) -> ImageFacts:
        """Return the facts of an image without pulling it.

        :raises InvalidRequest: builds cannot use the image.
        """
        return translate.image_of(self._local(asked, name), name)

    def validate(self, asked: Asked, name: str) -> None:
        """Return if builds can use the image or could pull it.

        :raises InvalidRequest: builds cannot use the image.
        """
        try:
            self._local(asked, name)
        except InvalidRequest:
            if self._pull == 'never' or not names.is_image(name):
                raise
            self._engine.ask(asked, Session.inspect_distribution, name)

    def _local(self, asked: Asked, name: str) -> Mapping[str, Any]:
        now = self._clock.monotonic()
        at, found = self._known.get(name, (float('-inf'), {}))
        if now - at < _TTL_S:
            return found
        if not names.is_image(name):
            kind = InvalidBuildRequest if asked.building else InvalidRequest
            raise asked.error(kind, f'{name!r} cannot be the name of an image.')
        answer: Mapping[str, Any] = self._engine.ask(asked, Session.inspect_image, name)
        self._known[name] = (now, answer)
        return answer

    def _fetch(self, asked: Asked, name: str) -> None:
        said = self._engine.ask(asked, Session.pull, name)
        # A failed pull is reported within an answer of status 200.
        for line in _lines(str(said)):
            if reason := line.get('error'):
                raise errors.refused(asked, errors.Reply(status=500, reason=str(reason)))
        self.forget()

    # ---- import ----------------------------------------------------------

    def import_file(self, image: ImageFile) -> str:
        """Make an image from a tar file and return its id; an existing one is reused."""
        asked = Asked(verb='import image', subject=image.name)
        if not names.is_image(image.name) or '@' in image.name:
            raise asked.error(InvalidRequest, 'that is not a name such as kiln/node:1.')
        try:
            content = _digest(image)
        except OSError as exc:
            raise asked.error(
                InvalidRequest, f'{image.path} cannot be read: {exc.strerror}.'
            ) from exc
        found = self._with_content(asked, content)
        if found is None:
            found = self._imported(asked, image, content)
        repository, tag = _split(image.name)
        self._engine.ask(asked, Session.tag, found, repository, tag, force=True)
        self.forget()
        return found

    def _with_content(self, asked: Asked, content: str) -> str | None:
        wanted = {'label': [f'{names.CONTENT}={content}']}
        found = self._engine.ask(asked, Session.images, filters=wanted)
        return translate.image_id(found[0]['Id']) if found else None

    def _imported(self, asked: Asked, image: ImageFile, content: str) -> str:
        repository, tag = _split(image.name)
        properties = {**image.properties, names.CONTENT: content}
        changes = [f'LABEL {_quoted(key)}={_quoted(value)}' for key, value in properties.items()]
        if image.command:
            changes.append(f'CMD {json.dumps(list(image.command))}')
        said = self._engine.ask_patiently(
            asked,
            lambda session: session.import_image_from_file(
                str(image.path), repository=repository, tag=tag, changes=changes
            ),
        )
        # Podman does not name the image that it imports: only its answer has the id.
        for line in _lines(str(said)):
            made = translate.image_id(line.get('status') or line.get('id'))
            if made is not None and made.startswith('sha256:'):
                return made
        raise asked.error(
            InvalidRequest, f'the engine made no image from it: {_complaint(str(said))}.'
        )


def _digest(image: ImageFile) -> str:
    """Return a digest that changes with any part of an image."""
    digest = hashlib.sha256(
        json.dumps([list(image.command), sorted(image.properties.items())]).encode()
    )
    with image.path.open('rb') as tar:
        while block := tar.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _split(name: str) -> tuple[str, str]:
    """Return repository and tag; a colon before a slash belongs to a registry's port."""
    repository, colon, tag = name.rpartition(':')
    if not colon or '/' in tag:
        return name, 'latest'
    return repository, tag


def _quoted(text: str) -> str:
    """Return a text quoted for a line of a Dockerfile."""
    escaped = text.replace('\\', '\\\\').replace('"', '\\"').replace('$', '\\$')
    return '"' + escaped.replace('\n', ' ') + '"'


def _lines(said: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a streamed answer."""
    for line in said.splitlines():
        try:
            found = parse_json(line)
        except NotJson:
            continue
        if isinstance(found, dict):
            yield found


def _complaint(said: str) -> str:
    for line in _lines(said):
        if reason := line.get('error'):
            return str(reason).rstrip('.')
    return ' '.join(said.split())[:_LONGEST_SAID] or 'the engine gave no reason'
