"""Real image builds: small images in a test directory, node images in a cache.

The cache of node images is the directory KILN_TEST_IMAGES, or the cache of kiln; its images are
reused for a week.
"""

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

from kiln.conf.images import default_cache
from kiln.images.building.builder import ImageBuilder
from kiln.images.cache import ImageCache
from kiln.images.library import Library
from kiln.images.programs import Programs

ROOT = pathlib.Path(__file__).parents[3]
WEEK_S = 7 * 86400
END_S = 300


@functools.cache
def node_image(name):
    """Return an image of a recipe of kiln; a build takes a minute or two."""
    named = os.environ.get('KILN_TEST_IMAGES')
    cache = ImageCache(pathlib.Path(named) if named else default_cache())
    builder = ImageBuilder(cache, Programs())
    return builder.build(Library().find(name), max_age_s=WEEK_S)


def contents(image):
    """Return the members of an image, by path."""
    with tarfile.open(image.path) as tar:
        return {member.name.removeprefix('.'): member for member in tar}


class BuildCase(unittest.TestCase):
    """Test case with its own cache, and kiln commands that build into it."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.cache = ImageCache(self.folder / 'cache')
        self.builder = ImageBuilder(self.cache, Programs())
        self.library = Library()
        self.config = self.folder / 'kiln.conf'
        self.config.write_text(f'[images]\ncache = {self.cache.root}\n')

    def recipe(self, name, text, **files):
        path = self.folder / 'recipes' / name
        path.mkdir(parents=True)
        (path / 'image.yaml').write_text(f'image: {name}\nvariant: extract\n{text}')
        for place, target in files.items():
            (path / 'files').mkdir(exist_ok=True)
            (path / 'files' / place).symlink_to(target)
        return path

    def command(self, *argv):
        """Start a kiln command, which is killed at the end of the test."""
        process = subprocess.Popen(
            [sys.executable, '-m', 'kiln.cli', '--config-file', str(self.config), *argv],
            cwd=ROOT,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join([str(ROOT), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A background process ignores SIGINT, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.addCleanup(self._end, process)
        return process

    def _end(self, process):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.communicate()

    def builders(self):
        """Return the processes that still use the cache."""
        found = []
        for entry in pathlib.Path('/proc').glob('[0-9]*/environ'):
            with contextlib.suppress(OSError):
                if os.fsencode(self.cache.root) in entry.read_bytes():
                    found.append(int(entry.parent.name))
        return found
