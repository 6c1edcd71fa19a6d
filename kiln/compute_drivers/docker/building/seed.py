"""Files and cloud-init seed copied into a container before it starts; pure."""

from __future__ import annotations

import io
import json
import posixpath
import tarfile
from collections.abc import Iterable, Mapping, Sequence

from kiln.compute_drivers.authoring import user_data
from kiln.compute_drivers.docker import names
from kiln.models import BuildRequest, InjectedFile

NOCLOUD, FILES, NONE, AUTO = 'nocloud', 'files', 'none', 'auto'
#: Where cloud-init reads a seed.
SEED_FOLDER = '/var/lib/cloud/seed/nocloud'
#: Folder of kiln's own files in a container.
OWN_FOLDER = '/var/lib/kiln'
#: Where user data is stored in a container without cloud-init.
USER_DATA = f'{OWN_FOLDER}/user-data'
#: The last file that is copied into a container; without it the container is half made.
COMPLETE = f'{OWN_FOLDER}/complete'

_FOLDER_MODE = 0o755
_SECRET_MODE = 0o600


def kind_of(option: str, image_labels: Mapping[str, str]) -> str:
    """Return how containers of an image get their files and user data."""
    if option != AUTO:
        return option
    return NOCLOUD if image_labels.get(names.SEED) == NOCLOUD else FILES


def files_of(request: BuildRequest, kind: str) -> tuple[InjectedFile, ...]:
    """Return the files that a build copies into its container."""
    if kind == NOCLOUD:
        # Without a seed, even an empty one, cloud-init would search for a cloud and fail.
        return _seed(request)
    given = request.files
    if request.user_data is not None:
        given += (InjectedFile(path=USER_DATA, content=request.user_data, mode=_SECRET_MODE),)
    return given


def _seed(request: BuildRequest) -> tuple[InjectedFile, ...]:
    meta = {
        'instance-id': request.build_key,
        'local-hostname': names.host_name(request.name),
    }
    data = user_data.compose(request.user_data, request.files, request.keys)
    contents = {
        'meta-data': json.dumps(meta).encode(),
        # cloud-init ignores a seed without user data.
        'user-data': data or b'#cloud-config\n{}\n',
    }
    return tuple(
        InjectedFile(path=f'{SEED_FOLDER}/{name}', content=content, mode=_SECRET_MODE)
        for name, content in contents.items()
    )


def folders_of(files: Iterable[InjectedFile]) -> list[str]:
    """Return the folders that the files need, outer folders first."""
    found: set[str] = set()
    for path in (COMPLETE, *(file.path for file in files)):
        while (path := posixpath.dirname(path)) != '/':
            found.add(path)
    return sorted(found)


def archive(
    files: Sequence[InjectedFile],
    folders: Sequence[str],
    owners: Mapping[str, tuple[int, int]],
    now: float,
) -> bytes:
    """Return a tar with the missing folders, the files, and last the completion mark."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w') as tar:
        for folder in folders:
            member = _member(folder, _FOLDER_MODE, now)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        for file in files:
            member = _member(file.path, file.mode, now)
            member.uid, member.gid = owners[file.owner]
            member.size = len(file.content)
            tar.addfile(member, io.BytesIO(file.content))
        tar.addfile(_member(COMPLETE, _SECRET_MODE, now))
    # Without the padding of the last record: Podman stops reading at the end of the
    # archive, and then sometimes reports a broken pipe for the rest.
    return packed.getvalue()[: tar.offset]


def _member(path: str, mode: int, now: float) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip('/'))
    member.mode, member.mtime = mode, int(now)
    return member


def hidden(files: Iterable[InjectedFile], covered: Iterable[str]) -> str | None:
    """Return the path of a file that a mount would hide; None if no file is hidden."""
    above = [path.rstrip('/') + '/' for path in covered]
    for file in files:
        if any(file.path.startswith(path) for path in above):
            return file.path
    return None


class Accounts:
    """The users and groups of an image, from its passwd and group files."""

    def __init__(self, passwd: str = '', group: str = '') -> None:
        self._users = {fields[0]: (int(fields[2]), int(fields[3])) for fields in _rows(passwd, 4)}
        self._groups = {fields[0]: int(fields[2]) for fields in _rows(group, 3)}

    def ids(self, owner: str) -> tuple[int, int] | None:
        """Return the ids of ``USER`` or ``USER:GROUP``; None if the image lacks one of them."""
        user, colon, group = owner.partition(':')
        if user.isdecimal():
            found = (int(user), int(user))
        elif user in self._users:
            found = self._users[user]
        else:
            return None
        if not colon:
            return found
        gid = int(group) if group.isdecimal() else self._groups.get(group)
        return None if gid is None else (found[0], gid)


def _rows(text: str, least: int) -> list[list[str]]:
    # The first of two rows with the same name counts, as in the container.
    rows = [line.split(':') for line in reversed(text.splitlines())]
    return [
        row
        for row in rows
        if len(row) >= least and all(field.isdecimal() for field in row[2:least])
    ]


#: The account of every image, whatever its files contain.
ROOT = Accounts('root:x:0:0', 'root:x:0')
