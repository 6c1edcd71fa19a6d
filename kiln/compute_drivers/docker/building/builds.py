"""Build and removal of containers by build key, without duplicates or leftovers."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import names, states, translate
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.compute_drivers.docker.api.errors import Trouble, trouble_in
from kiln.compute_drivers.docker.api.images import Images
from kiln.compute_drivers.docker.building import body, seed
from kiln.compute_drivers.docker.building.addresses import Addresses
from kiln.compute_drivers.docker.flavors import Flavor
from kiln.compute_drivers.docker.settings import Settings
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InvalidBuildRequest,
    Outcome,
)
from kiln.foreign.answers import Flood, read_at_most, words
from kiln.models import BuildRequest

LOG = logging.getLogger(__name__)

#: Seconds before each attempt, when the container's name is reserved but the container
#: does not exist: an engine reserves a name before it makes the container, and another
#: process can have removed the container.
_PAUSES_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 1.6)
_NO_LIMITS = Flavor()
#: The most bytes of an image's list of accounts, and of the archive around it.
_MOST_ACCOUNTS = 1024 * 1024
_MOST_PACKED = _MOST_ACCOUNTS + 2 * tarfile.RECORDSIZE


class Builds:
    """Makes containers by their build keys.

    The container's name follows from the key, and an engine gives a name only once: of
    two requests, one makes the container and the other finds it.
    """

    def __init__(self, engine: Engine, images: Images, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._images = images
        self._settings = settings
        self._clock = clock
        self._addresses = Addresses(engine)
        # An image's content never changes, so its folders and accounts are read once.
        self._folders: dict[tuple[str, str], bool] = {}
        self._accounts: dict[str, seed.Accounts] = {}

    # ---- building --------------------------------------------------------

    def build(self, request: BuildRequest) -> str:
        """Return the id of the container of a build key; make it if it does not exist."""
        asked = Asked(verb='build', subject=request.name, build_key=request.build_key)
        name = names.container_name(request.owner, request.build_key)
        fresh = request.fresh
        chosen: body.Chosen | None = None
        for pause_s in _PAUSES_S:
            self._clock.sleep(pause_s)
            found = None if fresh else self._named(asked, name)
            if found is None:
                chosen = chosen or self._choose(asked, request)
                found = self._create(request, chosen, name)
                # After the request the container might exist.
                fresh = False
                if found is None:
                    continue
            else:
                _check_ours(asked, found, request.owner)
            try:
                return self._brought_up(asked, request, found, chosen)
            except InstanceNotFoundError:
                # A container that was gone meanwhile had no folders either.
                self._folders.clear()
                continue
            except (BuildConflict, InvalidBuildRequest) as exc:
                networks = chosen.networks if chosen else ()
                if not self._addresses.may_choose_again(networks, trouble_in(exc.fault)):
                    raise
                chosen = None
        raise asked.error(
            BuildConflict,
            'its name is reserved, but no container has it.',
            retryable=True,
        )

    def _brought_up(
        self,
        asked: Asked,
        request: BuildRequest,
        found: Mapping[str, Any],
        chosen: body.Chosen | None,
    ) -> str:
        """Return the id of a container, after starting it if it was never started.

        :raises BuildDiffers: it was made with other arguments; nothing was changed.
        """
        container_id = str(found['Id'])
        status = states.told(found).status if 'State' in found else 'created'
        if status in ('removing', 'dead'):
            raise asked.error(
                BuildConflict, 'the container of its key is still being removed.', retryable=True
            )
        if 'State' in found:
            adopted(request, translate.as_built(found))
        if status == 'created':
            chosen = chosen or self._choose(asked, _of_its_image(request, found))
            with self._nothing_left(asked, container_id):
                self._finish(asked, request, chosen, container_id)
                self._start(asked, container_id)
        return container_id

    def _choose(self, asked: Asked, request: BuildRequest) -> body.Chosen:
        """Look up all that the request names, so that errors show before anything is made."""
        settings = self._settings
        image_name = request.image_id or settings.image
        if image_name is None:
            raise asked.error(
                InvalidBuildRequest, 'it names no image, and the backend has no default image.'
            )
        zone = request.availability_zone or settings.zones[0]
        if zone not in settings.zones:
            raise asked.error(
                InvalidBuildRequest,
                f'zone {zone!r} does not exist; the zones are {", ".join(settings.zones)}.',
            )
        image = self._images.for_build(asked, image_name)
        image_labels = translate.image_labels(image)
        systemd = image_labels.get(names.INIT) == 'systemd'
        if systemd and not settings.privileged:
            raise asked.error(
                InvalidBuildRequest,
                f'image {image_name} boots systemd, which needs the option privileged.',
            )
        networks = [
            body.hung_on(asked, network)
            for network in request.network_ids or tuple(settings.networks)
        ]
        content = _content(asked, request, seed.kind_of(settings.seed, image_labels))
        chosen = body.Chosen(
            image=image_name,
            image_id=str(image['Id']),
            image_labels=image_labels,
            flavor=self.flavor(asked, request.flavor),
            networks=self._addresses.chosen(asked, networks),
            labels=names.labels_of(
                request,
                zone=zone,
                unfinished=bool(content) or len(networks) > 1,
                health=translate.has_health(image),
            ),
            systemd=systemd,
        )
        if path := seed.hidden(content, chosen.tmpfs(settings)):
            raise asked.error(
                InvalidBuildRequest,
                f'file {path} would be hidden by the in-memory file system above it.',
            )
        return chosen

    def flavor(self, asked: Asked, name: str | None) -> Flavor:
        """Return a flavor by its name; without a name the default flavor, or no limits.

        :raises InvalidRequest: no flavor has that name.
        """
        name = name or self._settings.flavor
        if name is None:
            return _NO_LIMITS
        found = self._settings.flavors.get(name)
        if found is None:
            known = ', '.join(self._settings.flavors) or 'none'
            raise asked.error(
                InvalidBuildRequest, f'flavor {name!r} does not exist; the flavors are {known}.'
            )
        return found

    def _create(
        self, request: BuildRequest, chosen: body.Chosen, name: str
    ) -> Mapping[str, Any] | None:
        """Return the new container; None if its name is already in use."""
        sent = body.create_body(request, chosen, self._settings)
        making = Asked(
            verb='build', subject=request.name, build_key=request.build_key, making=True
        )
        try:
            made: Mapping[str, Any] = self._engine.ask(
                making, Session.create_container_from_config, sent, name=name
            )
        except InstanceNotFoundError as exc:
            raise making.error(BuildOutcomeUnknown, f'it was removed at once: {exc}') from exc
        except BuildConflict as exc:
            if trouble_in(exc.fault) is not Trouble.NAME_TAKEN:
                raise
            return None
        except InvalidBuildRequest:
            # The cached image can have been removed meanwhile.
            self._images.forget()
            raise
        return made

    def _finish(
        self, asked: Asked, request: BuildRequest, chosen: body.Chosen, container_id: str
    ) -> None:
        """Connect the other networks and copy the files; safe to repeat."""
        if names.UNFINISHED not in chosen.labels:
            return
        host_name = names.host_name(request.name)
        for hung in chosen.networks[1:]:
            self.connect(asked, container_id, hung, host_name)
        kind = seed.kind_of(self._settings.seed, chosen.image_labels)
        files = seed.files_of(request, kind)
        packed = seed.archive(
            files,
            self._lacking(asked, container_id, chosen.image_id, seed.folders_of(files)),
            {
                file.owner: self._ids(asked, container_id, chosen.image_id, file.owner)
                for file in files
            },
            self._clock.time(),
        )
        self._engine.ask(asked, Session.put_archive, container_id, '/', packed)

    def connect(self, asked: Asked, container_id: str, hung: body.Hung, host_name: str) -> None:
        """Connect a container to a network; does nothing if it is connected already."""
        wanted = body.endpoint(hung, host_name)
        config = wanted.get('IPAMConfig', {})
        try:
            self._engine.ask(
                asked,
                Session.connect_container_to_network,
                container_id,
                hung.network,
                ipv4_address=config.get('IPv4Address'),
                ipv6_address=config.get('IPv6Address'),
                aliases=wanted.get('Aliases'),
            )
        except AmphoraComputeError as exc:
            if trouble_in(exc.fault) is not Trouble.CONNECTED:
                raise

    def _lacking(
        self, asked: Asked, container_id: str, image: str, folders: Sequence[str]
    ) -> list[str]:
        """Return the folders missing in an image; engines would pick their owner and mode."""
        found: list[str] = []
        for folder in folders:
            key = (image, folder)
            if key not in self._folders:
                self._folders[key] = self._has(asked, container_id, folder)
            if not self._folders[key]:
                found.append(folder)
        return found

    def _has(self, asked: Asked, container_id: str, path: str) -> bool:
        def look(session: Any) -> bool:
            url, wanted = _archive_url(session, container_id), {'path': path}
            answer = session.head(url, params=wanted)
            if answer.status_code >= 500:
                # A failure must not be taken for a missing file. The engine tells why in
                # the answer to a GET.
                with session.get(url, params=wanted, stream=True) as answer:
                    session._raise_for_status(answer)
            return bool(answer.ok)

        return self._engine.ask(asked, look)

    def _ids(self, asked: Asked, container_id: str, image: str, owner: str) -> tuple[int, int]:
        if (ids := seed.ROOT.ids(owner)) is not None:
            return ids
        if image not in self._accounts:
            texts = [
                self._text(asked, container_id, path) for path in ('/etc/passwd', '/etc/group')
            ]
            self._accounts[image] = seed.Accounts(*texts)
        ids = self._accounts[image].ids(owner)
        if ids is None:
            raise asked.error(
                InvalidBuildRequest, f'its image has no account {owner!r} to own a file.'
            )
        return ids

    def _text(self, asked: Asked, container_id: str, path: str) -> str:
        try:
            packed = self._engine.ask(asked, lambda session: _archive(session, container_id, path))
        except InvalidBuildRequest:
            return ''
        try:
            return _first_file(packed)
        except (tarfile.TarError, Flood) as exc:
            raise asked.error(
                InvalidBuildRequest, f'its image has a {path} that cannot be read: {words(exc)}.'
            ) from exc

    def _start(self, asked: Asked, container_id: str) -> None:
        self._engine.ask(asked, Session.start, container_id)

    @contextlib.contextmanager
    def _nothing_left(self, asked: Asked, container_id: str) -> Iterator[None]:
        """Remove a container if its start has certainly failed."""
        try:
            yield
        except InstanceNotFoundError:
            raise
        except AmphoraComputeError as exc:
            unknown = asked.error(
                BuildOutcomeUnknown, f'its container was made, but might not have started. {exc}'
            )
            if exc.outcome is not Outcome.NOT_APPLIED:
                # It might run now or later: the next build with this key finds it.
                raise unknown from exc
            try:
                self._remove(asked, container_id)
            except AmphoraComputeError as failure:
                LOG.warning('Cannot remove what build %s left: %s', asked.build_key, failure)
                raise unknown from exc
            raise

    # ---- finding ---------------------------------------------------------

    def find(self, asked: Asked, owner: str) -> Mapping[str, Any] | None:
        """Return the container of a build; None only if it certainly does not exist.

        A container that was made but never started, because its builder ended, is
        started. One without its files, which only the build itself has, is removed.
        """
        assert asked.build_key is not None
        found = self._named(asked, names.container_name(owner, asked.build_key))
        if found is None or translate.owner_of(found) != owner:
            return None
        if states.told(found).status != 'created' or states.told(found).error:
            return found
        container_id = str(found['Id'])
        try:
            if names.UNFINISHED in names.labels_in(found) and not self._has(
                asked, container_id, seed.COMPLETE
            ):
                LOG.warning(
                    'Build %s was left half made; its container is removed', asked.build_key
                )
                self._remove(asked, container_id)
                return None
            self._start(asked, container_id)
            return self._named(asked, container_id)
        except InstanceNotFoundError:
            return None

    def _named(self, asked: Asked, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._engine.ask(asked, Session.inspect_container, name)
        except InstanceNotFoundError:
            return None
        return found

    # ---- deleting --------------------------------------------------------

    def delete(self, asked: Asked) -> None:
        """Remove a container of kiln with its volumes."""
        assert asked.amphora_id is not None
        found = self._named(asked, asked.amphora_id) if names.is_id(asked.amphora_id) else None
        if found is None or translate.owner_of(found) is None:
            raise asked.error(InstanceNotFoundError, 'kiln has no container with that id.')
        self._remove(asked, asked.amphora_id)

    def _remove(self, asked: Asked, container_id: str) -> None:
        removing = Asked(
            verb='delete', subject=container_id, amphora_id=asked.amphora_id,
            build_key=asked.build_key,
        )  # fmt: skip
        try:
            self._engine.ask(removing, Session.remove_container, container_id, v=True, force=True)
        except DeleteFailed as exc:
            # Another removal is running already, so the container will go.
            if trouble_in(exc.fault) is not Trouble.REMOVING:
                raise
        except InstanceNotFoundError:
            # It is gone, which is all that was asked for.
            return


def _archive(session: Any, container_id: str, path: str) -> bytes:
    """Return the archive of a file in a container, or more than the most that is used of it."""
    packed = b''
    url = _archive_url(session, container_id)
    # The SDK would leave a connection open of which the rest is not read.
    with session.get(url, params={'path': path}, stream=True) as answer:
        session._raise_for_status(answer)
        for block in answer.iter_content(tarfile.RECORDSIZE):
            packed += block
            if len(packed) > _MOST_PACKED:
                break
    return packed


def _archive_url(session: Any, container_id: str) -> str:
    return f'{session.base_url}/v{session.api_version}/containers/{container_id}/archive'


def _first_file(packed: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(packed), mode='r:') as tar:
        member = tar.next()
        # A link is not followed: what it leads to is not in the archive.
        content = tar.extractfile(member) if member and member.isfile() else None
        if content is None:
            raise tarfile.ReadError('it is not a file')
        # A file with holes can be far longer than its archive.
        return read_at_most(content, _MOST_ACCOUNTS).decode('utf-8', 'replace')


def _content(asked: Asked, request: BuildRequest, kind: str) -> tuple[Any, ...]:
    if kind != seed.NOCLOUD and request.keys:
        raise asked.error(
            InvalidBuildRequest, 'keys need an image that runs cloud-init, or seed=nocloud.'
        )
    return seed.files_of(request, kind)


def _of_its_image(request: BuildRequest, found: Mapping[str, Any]) -> BuildRequest:
    """Return a request with the image of its container: the name can have moved since."""
    return dataclasses.replace(request, image_id=translate.image_id(found.get('Image')))


def _check_ours(asked: Asked, found: Mapping[str, Any], owner: str) -> None:
    if translate.owner_of(found) != owner or translate.key_of(found) != asked.build_key:
        raise asked.error(
            BuildConflict, f'its name is in use by container {found["Id"][:12]} of another build.'
        )
