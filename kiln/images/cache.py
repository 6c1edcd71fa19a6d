"""Images that were built, in a directory: each whole, or not there at all.

An image is a directory ``NAME/KEY`` with the tar file and what is known of it. It is
made under another name and gets its own in one step, so a kill leaves no half of it.
Whoever builds or removes images of a name holds the lock of that name; the system
gives it back however its holder ends.
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

from kiln.image_exceptions import ImageError, ImageNotFound
from kiln.images.order import TAR

_FACTS = 'image.json'
_LOCK = '.lock'
_STAGE = '.stage-'
_OLD = '.old-'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image that was built."""

    name: str
    #: Of what it was built of: the recipe, and the state of the archives.
    key: str
    #: Of what came out; the SHA-256 of the tar file.
    digest: str
    size: int
    #: The digest of its recipe.
    recipe: str
    suite: str
    architecture: str
    sources: tuple[str, ...]
    #: When the newest of its archives was made; files without a date of their own have it.
    epoch: int
    built_at: float
    took_s: float
    command: tuple[str, ...]
    properties: Mapping[str, str]
    packages: Mapping[str, str]
    path: Path = Path()

    @property
    def reference(self) -> str:
        """What it is called in a backend."""
        return f'kiln/{self.name}:{self.digest[:12]}'


class ImageCache:
    """The images of one directory; several processes may have it open."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # ---- looking -------------------------------------------------------------------

    def find(self, name: str, key: str) -> Image | None:
        """Return the image of a key; None if there is none."""
        return _read(self.root / name / key)

    def images(self, name: str | None = None) -> Sequence[Image]:
        """Return all images, or those of a name; the newest of each name first."""
        names = self.names() if name is None else [name]
        found = (_read(path) for one in names for path in _folders(self.root / one))
        return sorted(
            (image for image in found if image is not None),
            key=lambda image: (image.name, -image.built_at),
        )

    def names(self) -> Sequence[str]:
        """Return the names of which there are, or were, images."""
        return [path.name for path in _folders(self.root)]

    def newest(self, name: str) -> Image:
        """Return the image of a name that was built last.

        :raises ImageNotFound: there is none.
        """
        found = self.images(name)
        if not found:
            raise ImageNotFound(
                f"Cannot find an image of {name!r}. Build it with 'kiln image build {name}'."
            )
        return found[0]

    # ---- changing ------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[int]:
        """Have the lock of a name; wait for whoever has it, and say so once.

        Yields its descriptor: a process that gets it holds the lock as well.

        :raises ImageError: nothing can be written there.
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
        """Return a new directory in which an image of a name can be made.

        Only for who holds the lock.
        """
        return Path(tempfile.mkdtemp(prefix=_STAGE, dir=self._folder(name)))

    def leftovers(self, name: str) -> Sequence[Path]:
        """Return what builds of a name that were killed have left.

        Only for who holds the lock: else somebody may be working there.
        """
        found = _folders(self.root / name, hidden=True)
        return [path for path in found if path.name.startswith((_STAGE, _OLD))]

    def publish(self, stage: Path, image: Image) -> Image:
        """Give an image that is whole its name, and return it as it can be found.

        It takes the place of one of its key. Only for who holds the lock.
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
        """Remove an image; one that is gone already is a success."""
        with self.locked(image.name):
            final = self.root / image.name / image.key
            self._put_away(final)
            shutil.rmtree(_old(final), ignore_errors=True)

    def _put_away(self, final: Path) -> None:
        """Take the name from an image, in one step, so that nobody finds a half of it."""
        shutil.rmtree(_old(final), ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            final.rename(_old(final))

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ImageError(
                f'Cannot keep images in {self.root}: {exc.strerror}. Set [images] cache to a '
                f'directory that this user may write in.'
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
    facts = {
        field.name: _plain(getattr(image, field.name))
        for field in dataclasses.fields(image)
        if field.name != 'path'
    }
    return json.dumps(facts, indent=1, sort_keys=True)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _read(folder: Path) -> Image | None:
    try:
        facts = json.loads((folder / _FACTS).read_text())
        values = {name: _value(value) for name, value in dict(facts).items()}
        return Image(**values, path=folder / TAR)
    # Not there, or of another version of kiln: it can be built again.
    except (OSError, ValueError, TypeError):
        return None


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return MappingProxyType(value) if isinstance(value, dict) else value


def _sync(path: Path) -> None:
    """Return once a file, or what a folder lists, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
