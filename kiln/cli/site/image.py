"""Commands about images of nodes and their recipes."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import TEXT_FORMAT, argument, count, flag, span
from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows
from kiln.cli.driver.lookup import catalogue_of
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.views import cells, fields, moment
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.conf.images import default_cache
from kiln.exceptions import ConfigurationError, KilnError, UnsupportedOperation
from kiln.models import ImageFile
from kiln.plugins.extras import importing

if TYPE_CHECKING:
    from kiln.compute_drivers.base import AmphoraComputeDriver
    from kiln.images.archives.sources import Source
    from kiln.images.building.builder import ImageBuilder
    from kiln.images.cache import Image, ImageCache
    from kiln.images.library import Library

COLUMNS = ('name', 'state', 'suite', 'digest', 'size_mb', 'built_at', 'recipe')


class _OnImages(KilnCommand):
    """A command on recipes and the images built from them."""

    def library(self) -> Library:
        """Return all recipes: of kiln, of cluster drivers and of the operator."""
        with importing('Cannot read recipes', ConfigurationError):
            from kiln.images.library import Library, Shelf

            catalogue = catalogue_of(self.app.settings)
        shelves = [
            Shelf(folder / 'image', f'cluster driver {record.name}')
            for record, folder in catalogue.folders().items()
        ]
        paths = self.app.settings.images.image_path
        return Library([*shelves, *(Shelf.at(path) for path in paths)])

    def cache(self) -> ImageCache:
        """Return the cache of built images."""
        from pathlib import Path

        from kiln.images.cache import ImageCache

        named = self.app.settings.images.cache
        return ImageCache(Path(named).expanduser() if named else default_cache())

    def builder(self) -> ImageBuilder:
        """Return the builder that writes to the cache."""
        from kiln.images.building.builder import ImageBuilder
        from kiln.images.programs import Programs

        return ImageBuilder(self.cache(), Programs())


class Build(_OnImages):
    """Build an image from a recipe and the current archives, and show the progress.

    Prints the path of the image or, with --into, its name in the backend. An image with
    the same inputs is not built again. Safe to interrupt and repeat.
    """

    arguments = (
        argument(
            'name', metavar='NAME', help='Name of a recipe, or its directory written with a slash.'
        ),
        argument('--into', metavar='BACKEND', help='Import the image into this backend.'),
        argument(
            '--mirror',
            action='append',
            default=[],
            help='Archive to build from instead: a URL, or a line of sources.list; can be '
            'repeated.',
        ),
        argument(
            '--snapshot',
            metavar='MOMENT',
            help='Build from the Debian archives of this time, such as 20250520T000000Z.',
        ),
        argument('--suite', help='Release of Debian (default: from the recipe).'),
        argument(
            '--max-age',
            type=span,
            default=0.0,
            metavar='SPAN',
            help='Use an image of the recipe that is not older than this, such as 7d, even if '
            'the archives have changed since.',
        ),
        flag('--force', 'Build even if it was built already.'),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cli.output.image_progress import screen
        from kiln.images.building.progress import Progress, Stage

        args = parsed_args
        recipe = self.library().find(args.name)
        suite = args.suite or recipe.suite
        sources = self._sources(args, suite)
        with contextlib.ExitStack() as stack:
            # Fail before the build, not after it, where the backend imports no images.
            driver = stack.enter_context(self._taker(args.into)) if args.into else None
            report = stack.enter_context(screen(self.app, recipe.name, args.formatter))
            image = self.builder().build(
                recipe,
                suite=suite,
                sources=sources,
                force=args.force,
                max_age_s=args.max_age,
                report=report,
            )
            imported = ''
            if driver is not None:
                report(Progress(Stage.IMPORTING, subject=args.into))
                for name in references(image):
                    imported = driver.import_image(image_file(image, name))
        self._print(image, imported, args)

    @contextlib.contextmanager
    def _taker(self, name: str) -> Iterator[AmphoraComputeDriver]:
        """Open the driver of a backend that imports images."""
        with contextlib.closing(self.app.backends.open(name)) as backend:
            if type(backend.driver).import_image is ComputeHooks.import_image:
                raise UnsupportedOperation(
                    f'Cannot import an image into {name}: its driver does not import root file '
                    f'systems.'
                )
            yield backend.driver

    def _sources(self, args: argparse.Namespace, suite: str) -> Sequence[Source]:
        from kiln.images.archives.sources import Source, snapshot_sources

        if args.snapshot and args.mirror:
            raise UsageError('Cannot build from a mirror and a snapshot: leave out one of them.')
        if args.snapshot:
            if not re.fullmatch(r'\d{8}T\d{6}Z', args.snapshot):
                raise UsageError(
                    f'Cannot use snapshot {args.snapshot!r}: write it as 20250520T000000Z.'
                )
            return snapshot_sources(suite, args.snapshot)
        try:
            lines = args.mirror or self.app.settings.images.mirror
            return [Source.read(line, suite) for line in lines]
        except ValueError as exc:
            raise UsageError(f'Cannot use an archive: {exc}.') from None

    def _print(self, image: Image, imported: str, args: argparse.Namespace) -> None:
        out = self.app.stdout
        if args.formatter == 'json':
            facts = image_fields(image)
            facts |= {'backend': args.into, 'image_id': imported} if imported else {}
            out.write(f'{json.dumps(facts)}\n')
            return
        size = f'{image.size / 1e6:.0f} MB'
        self.app.say(f'{image.name} is {image.reference}, {size}, built {moment(image.built_at)}.')
        out.write(f'{image.reference if imported else image.path}\n')


class List(_OnImages, KilnLister):
    """List the recipes, and the images built from each."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        library, images = self.library(), self.cache().images()
        entries = library.entries()
        rows = []
        for entry in entries:
            own = [image for image in images if image.name == entry.name]
            try:
                digest = library.read(entry.path).digest
            except KilnError as exc:
                self.app.complain(exc)
                rows.append([entry.name, 'broken', None, None, None, None, entry.origin])
                continue
            if not own:
                rows.append([entry.name, 'not built', None, None, None, None, entry.origin])
            for image in own:
                state = 'built' if image.recipe == digest else 'recipe changed'
                rows.append(_row(image, state, entry.origin))
        named = {entry.name for entry in entries}
        rows += [_row(image, 'no recipe', None) for image in images if image.name not in named]
        return COLUMNS, [cells(row) for row in rows]


class Show(_OnImages, KilnShow):
    """Show the newest image of a name: its contents and its sources."""

    arguments = (argument('name', metavar='NAME', help='Name of an image.'),)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return fields(image_fields(self.cache().newest(parsed_args.name)))


class Remove(_OnImages):
    """Remove images from the cache; copies in backends stay."""

    arguments = (
        argument('name', metavar='NAME', help='Name of the images.'),
        argument('--digest', help='Only images whose digest begins with this.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.images.exceptions import ImageNotFound

        cache, digest = self.cache(), parsed_args.digest or ''
        images = cache.images(parsed_args.name)
        found = [image for image in images if image.digest.startswith(digest)]
        if not found:
            there = ', '.join(image.reference for image in cache.images()) or 'none'
            what = f'{parsed_args.name}:{digest}' if digest else parsed_args.name
            raise ImageNotFound(
                f'Cannot find image {what} in the cache. Existing images: {there}.'
            )
        for image in found:
            cache.remove(image)
            self.app.say(f'{image.reference} is removed from the cache.')


class Prune(_OnImages):
    """Remove all but the newest images of each name, and the remains of killed builds."""

    arguments = (
        argument(
            '--keep',
            type=count,
            default=1,
            metavar='N',
            help='Number to keep of each name (default: 1).',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        gone = self.builder().prune(keep=parsed_args.keep)
        freed = sum(image.size for image in gone) / 1e6
        self.app.say(f'{len(gone)} images removed, {freed:.0f} MB.')


def references(image: Image) -> Sequence[str]:
    """Return the names of an image in a backend: one by its content, and "latest"."""
    return (image.reference, f'kiln/{image.name}:latest')


def image_file(image: Image, name: str) -> ImageFile:
    """Return an image under a name, as a backend imports it."""
    return ImageFile(
        name=name, path=image.path, command=image.command, properties=image.properties
    )


def image_fields(image: Image) -> dict[str, Any]:
    """Return all fields of an image that can be shown."""
    return {
        'name': image.name,
        'reference': image.reference,
        'digest': image.digest,
        'path': str(image.path),
        'size': image.size,
        'suite': image.suite,
        'architecture': image.architecture,
        'sources': list(image.sources),
        'archives_of': moment(image.epoch),
        'built_at': moment(image.built_at),
        'took_s': round(image.took_s, 1),
        'key': image.key,
        'recipe': image.recipe,
        'command': list(image.command),
        'properties': dict(image.properties),
        'packages': dict(image.packages),
    }


def _row(image: Image, state: str, origin: str | None) -> list[Any]:
    size_mb = round(image.size / 1e6)
    built_at = moment(image.built_at)
    return [image.name, state, image.suite, image.digest[:12], size_mb, built_at, origin]
