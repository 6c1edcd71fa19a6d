"""Image cache: a directory of built images, each complete or absent.

An image is a directory ``NAME/KEY`` with the tar file and its metadata. It is created
under a temporary name and renamed atomically, so a killed build leaves no partial image.
A process that builds or removes images of a name holds the lock of that name; the system
releases the lock when the process ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kiln.images.build_request import TAR
from kiln.images.exceptions import ImageError, ImageNotFound

_FACTS = 'image.json'
_LOCK = '.lock'
_STAGE = '.stage-'
_OLD = '.old-'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A built image and its metadata."""

    name: str
    #: Digest of the input: the recipe, and the state of the archives.
    key: str
    #: Digest of the output: SHA-256 of the tar file.
    digest: str
    size: int
    #: Digest of the recipe.
    recipe: str
    suite: str
    architecture: str
    sources: tuple[str, ...]
    #: Date of the newest archive, used for files without a date of their own.
    epoch: int
    built_at: float
    took_s: float
    command: tuple[str, ...]
    properties: Mapping[str, str]
    packages: Mapping[str, str]
    path: Path = Path()

    @property
    def reference(self) -> str:
        """Name of the image in a backend."""
        return f'kiln/{self.name}:{self.digest[:12]}'


class ImageCache:
    """The images of one directory, which several processes can share."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # ---- reading -------------------------------------------------------------------

    def find(self, name: str, key: str) -> Image | None:
        """Return the image with a key; None if it does not exist."""
        return _read(self.root / name / key)

    def images(self, name: str | None = None) -> Sequence[Image]:
        """Return all images, or the images of a name; the newest of each name first."""
        names = self.names() if name is None else [name]
        found = (_read(path) for one in names for path in _folders(self.root / one))
        return sorted(
            (image for image in found if image is not None),
            key=lambda image: (image.name, -image.built_at),
        )

    def names(self) -> Sequence[str]:
        """Return the names that have images, or had images before."""
        return [path.name for path in _folders(self.root)]

    def newest(self, name: str) -> Image:
        """Return the newest image of a name.

        :raises ImageNotFound: the name has no image.
        """
        found = self.images(name)
        if not found:
            raise ImageNotFound(
                f"Cannot find an image of {name!r}. Build it with 'kiln image build {name}'."
            )
        return found[0]

    # ---- writing -------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[int]:
        """Hold the lock of a name; call ``on_wait`` once if it is necessary to wait.

        Yields the file descriptor of the lock: a process that inherits it holds the lock
        too.

        :raises ImageError: the cache is not writable.
        """
        descriptor = os.open(self._folder(name) / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def stage(self, name: str) -> Path:
        """Return a new directory in which to create an image of a name.

        The caller must hold the lock.
        """
        return Path(tempfile.mkdtemp(prefix=_STAGE, dir=self._folder(name)))

    def leftovers(self, name: str) -> Sequence[Path]:
        """Return directories left by killed builds of a name.

        The caller must hold the lock: otherwise a build might be using them.
        """
        found = _folders(self.root / name, hidden=True)
        return [path for path in found if path.name.startswith((_STAGE, _OLD))]

    def publish(self, stage: Path, image: Image) -> Image:
        """Store a complete image under its name, and return it with its path.

        Replaces an image with the same key. The caller must hold the lock.
        """
        final = self.root / image.name / image.key
        shared = stage / 'done'
        shared.mkdir()
        (stage / TAR).rename(shared / TAR)
        (shared / _FACTS).write_text(_written(image))
        for path in (shared / TAR, shared / _FACTS, shared):
            _sync(path)
        self._put_away(final)
        shared.rename(final)
        _sync(final.parent)
        shutil.rmtree(_old(final), ignore_errors=True)
        return dataclasses.replace(image, path=final / TAR)

    def remove(self, image: Image) -> None:
        """Remove an image; succeeds if the image is already gone."""
        with self.locked(image.name):
            final = self.root / image.name / image.key
            self._put_away(final)
            shutil.rmtree(_old(final), ignore_errors=True)

    def _put_away(self, final: Path) -> None:
        """Rename an image atomically, so that readers never find a partial image."""
        shutil.rmtree(_old(final), ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            final.rename(_old(final))

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ImageError(
                f'Cannot store images in {self.root}: {exc.strerror}. Set [images] cache to a '
                f'directory that this user can write to.'
            ) from exc
        return folder


def _old(final: Path) -> Path:
    return final.with_name(f'{_OLD}{final.name}')


def _folders(path: Path, *, hidden: bool = False) -> Sequence[Path]:
    try:
        found = sorted(path.iterdir())
    except OSError:
        return ()
    return [one for one in found if one.name.startswith('.') is hidden and one.is_dir()]


def _written(image: Image) -> str:
    names = {field.name for field in dataclasses.fields(image)} - {'path'}
    facts = {name: getattr(image, name) for name in names}
    return json.dumps(facts, indent=1, sort_keys=True, default=dict)


def _read(folder: Path) -> Image | None:
    try:
        facts = json.loads((folder / _FACTS).read_text())
        values = {name: _value(value) for name, value in dict(facts).items()}
        return Image(**values, path=folder / TAR)
    # Missing, or written by another version of kiln: the image can be rebuilt.
    except (OSError, ValueError, TypeError):
        return None


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return MappingProxyType(value) if isinstance(value, dict) else value


def _sync(path: Path) -> None:
    """Flush a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
