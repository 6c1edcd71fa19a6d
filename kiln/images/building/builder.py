"""Image builder: builds a recipe, or returns the matching image from the cache."""

from __future__ import annotations

import collections
import hashlib
import logging
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.images.archives.apt import Apt
from kiln.images.archives.sources import Source
from kiln.images.build_request import PACKAGES, TAR, Order, arguments, packages
from kiln.images.building.failures import failure
from kiln.images.building.progress import Course, Progress, Stage
from kiln.images.building.sandbox import Cell
from kiln.images.building.staging import lay_out
from kiln.images.cache import Image, ImageCache
from kiln.images.exceptions import MirrorUnavailable
from kiln.images.programs import Programs
from kiln.images.recipe import Recipe

LOG = logging.getLogger(__name__)

Report = Callable[[Progress], None]

#: Number of last lines in which the reason of a failure is searched.
_LAST = 400
#: Attempts at a build while the archives keep changing.
_TRIES = 3


class ImageBuilder:
    """Builds images into a cache, which several processes can share."""

    def __init__(
        self,
        cache: ImageCache,
        programs: Programs,
        *,
        cell: Cell | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.cache = cache
        self._programs = programs
        self._apt = Apt(programs)
        self._cell = cell or Cell(programs)
        self._clock = clock

    def build(
        self,
        recipe: Recipe,
        *,
        suite: str | None = None,
        sources: Sequence[Source] = (),
        force: bool = False,
        max_age_s: float = 0,
        report: Report = lambda progress: None,
    ) -> Image:
        """Return an image of a recipe, built from the current state of the archives.

        If the cache has an image of the same recipe and archive state, it is returned
        without a build, unless ``force`` is set. An image of the recipe that is at most
        ``max_age_s`` old is returned without contacting the archives. A build takes
        about a minute.
        Safe to repeat and to interrupt: an image is stored completely or not at all.
        Waits for another process that builds an image of the same name.

        :raises ImageError: the image cannot be built; class and message give the reason.
        """
        young = self._young(recipe, suite or recipe.suite, sources, max_age_s)
        if young is not None and not force:
            return young
        for _ in range(_TRIES):
            report(Progress(Stage.ASKING))
            order = self._order(recipe, suite or recipe.suite, sources)
            if not force and (found := self.cache.find(recipe.name, order.key)):
                return found
            if image := self._build(order, force=force, report=report):
                return image
            LOG.info('The archives changed while image %s was built.', recipe.name)
        raise MirrorUnavailable(
            f'Cannot build image {recipe.name}: its archives keep changing during the build. '
            f'Try again, or use another archive with --mirror.'
        )

    def prune(self, *, keep: int = 1) -> Sequence[Image]:
        """Remove all images but the newest of each name, and leftovers of killed builds.

        Waits for running builds. Returns the removed images.
        """
        gone: list[Image] = []
        for name in self.cache.names():
            old = self.cache.images(name)[keep:]
            for image in old:
                self.cache.remove(image)
            with self.cache.locked(name):
                self._cell.remove(self.cache.leftovers(name))
            gone += old
        return gone

    def _young(
        self, recipe: Recipe, suite: str, sources: Sequence[Source], max_age_s: float
    ) -> Image | None:
        since = self._clock.time() - max_age_s
        lines = tuple(map(str, sources))
        for image in self.cache.images(recipe.name) if max_age_s else ():
            same = (image.recipe, image.suite) == (recipe.digest, suite)
            if same and image.built_at >= since and lines in ((), image.sources):
                return image
        return None

    def _order(self, recipe: Recipe, suite: str, sources: Sequence[Source]) -> Order:
        sources = tuple(sources) or self._apt.sources(suite)
        return Order(
            recipe=recipe,
            suite=suite,
            architecture=self._apt.architecture(),
            sources=sources,
            releases=self._apt.releases(sources),
        )

    def _build(self, order: Order, *, force: bool, report: Report) -> Image | None:
        """Build and return an image; None if the archives changed during the build."""
        name = order.recipe.name
        self._programs.find('mmdebstrap')
        self._cell.check()
        before = self.cache.find(name, order.key)
        with self.cache.locked(name, lambda: report(Progress(Stage.WAITING))) as lock:
            self._cell.remove(self.cache.leftovers(name))
            found = self.cache.find(name, order.key)
            # Another process built the same image while this one waited for the lock.
            if found and (not force or found != before):
                return found
            stage = self.cache.stage(name)
            try:
                return self._build_in(stage, order, lock, report)
            finally:
                self._cell.remove([stage])

    def _build_in(self, stage: Path, order: Order, lock: int, report: Report) -> Image | None:
        began = self._clock.monotonic()
        lay_out(order, stage, self._apt.configuration())
        self._run(stage, order, lock, report)
        # If an archive changed, it is unknown which state apt has read.
        if self._apt.releases(order.sources) != order.releases:
            return None
        recipe = order.recipe
        image = Image(
            name=recipe.name,
            key=order.key,
            digest=_digest(stage / TAR),
            size=(stage / TAR).stat().st_size,
            recipe=recipe.digest,
            suite=order.suite,
            architecture=order.architecture,
            sources=tuple(map(str, order.sources)),
            epoch=order.epoch,
            built_at=self._clock.time(),
            took_s=self._clock.monotonic() - began,
            command=recipe.command,
            properties={**recipe.properties, 'kiln.image': recipe.name},
            packages=packages((stage / PACKAGES).read_text()),
        )
        return self.cache.publish(stage, image)

    def _run(self, stage: Path, order: Order, lock: int, report: Report) -> None:
        command = [self._programs.find('mmdebstrap'), *arguments(order, stage)]
        LOG.debug('Running %s', shlex.join(command))
        log = self.cache.root / f'{order.recipe.name}.log'
        environment = {
            'KILN_STAGE': str(stage),
            'SOURCE_DATE_EPOCH': str(order.epoch),
            'TMPDIR': str(stage),
            # Compiled Python modules store sets in the order of their hashes.
            'PYTHONHASHSEED': '0',
        }
        last: collections.deque[str] = collections.deque(maxlen=_LAST)
        course = Course()
        # Not for other users: a recipe can print anything.
        with open(log, 'w', opener=lambda path, flags: os.open(path, flags, 0o640)) as written:

            def read(line: str) -> None:
                written.write(line)
                last.append(line.rstrip())
                if progress := course.read(last[-1]):
                    report(progress)

            # The processes hold the lock too: it is free only when all have exited.
            status = self._cell.run(command, read, environment=environment, keep=[lock])
        if status:
            raise failure(order.recipe, status, last, str(log))
        log.unlink()


def _digest(path: Path) -> str:
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()
