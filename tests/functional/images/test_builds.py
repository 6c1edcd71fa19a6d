"""Real builds of small images: reproducible, and without leftovers."""

import contextlib
import dataclasses
import os
import signal
import time

from kiln.images.archives.sources import Source
from kiln.images.building.builder import ImageBuilder
from kiln.images.building.progress import Stage
from kiln.images.cache import ImageCache
from kiln.images.exceptions import ImageBuildFailed, MirrorUnavailable, PackageNotFound
from kiln.images.programs import Programs
from tests.functional.images.builds import END_S, BuildCase, contents

#: A small suite, to keep the tests fast.
SMALL = [Source('http://deb.debian.org/debian', 'bookworm-updates')]


#: With KILN_FULL, the large images are built twice too, which takes minutes.
NODES = ('debian-node', 'swarm-node') if 'KILN_FULL' in os.environ else ()


class Building(BuildCase):
    def test_two_builds_are_identical(self):
        recipe = self.library.find('plain-node')
        stages = []
        first = self.builder.build(recipe, report=lambda one: stages.append(one.stage))
        second = self.builder.build(recipe, force=True)
        self.assertEqual((first.key, first.digest), (second.key, second.digest))
        wanted = [Stage.ASKING, Stage.DOWNLOADING, Stage.UNPACKING, Stage.FINISHING, Stage.PACKING]
        self.assertEqual(wanted, list(dict.fromkeys(stages)))

        for name in NODES:
            digests = {
                ImageBuilder(ImageCache(self.folder / place), Programs())
                .build(self.library.find(name))
                .digest
                for place in ('one', 'two')
            }
            self.assertEqual(1, len(digests), name)

        found = contents(first)
        self.assertEqual('/bin/busybox', found['/bin/sh'].linkname)
        self.assertEqual((0, 0, 0o644), _rights(found['/etc/passwd']))
        gone = {'/etc/apt/sources.list', '/etc/hostname', '/etc/resolv.conf', '/.kiln-run',
                '/etc/apt/apt.conf.d/00kiln', '/etc/dpkg/dpkg.cfg.d/00kiln'}  # fmt: skip
        self.assertEqual(set(), gone & set(found))
        self.assertEqual(['plain-node'], [path.name for path in self.cache.root.iterdir()])

    def test_a_file_is_not_written_through_a_link_out_of_the_image(self):
        outside = self.folder / 'outside'
        outside.mkdir()
        path = self.recipe('way-out', '', door=outside)
        base = self.library.read(path)
        inner = self.folder / 'recipes' / 'thief'
        (inner / 'files' / 'door').mkdir(parents=True)
        (inner / 'files' / 'door' / 'loot').write_text('x')
        (inner / 'image.yaml').write_text('image: thief\n')
        layers = (*base.layers, *self.library.read(inner).layers)
        recipe = dataclasses.replace(base, layers=layers)
        with self.assertRaises(ImageBuildFailed) as caught:
            self.builder.build(recipe, sources=SMALL)
        self.assertIn('/door leads out of the image', str(caught.exception))
        self.assertEqual([], list(outside.iterdir()))

    def test_the_error_of_a_script_is_quoted(self):
        path = self.recipe(
            'script', 'packages: [busybox-static]\nrun: |\n  echo upside down >&2\n  false\n'
        )
        with self.assertRaises(ImageBuildFailed) as caught:
            self.builder.build(self.library.read(path))
        self.assertIn('image script: upside down.', str(caught.exception))

    def test_a_package_that_does_not_exist_is_reported(self):
        path = self.recipe('bad', 'packages: [dokcer.oi]\n')
        with self.assertRaises(PackageNotFound) as caught:
            self.builder.build(self.library.read(path), sources=SMALL)
        self.assertIn('no package dokcer.oi', str(caught.exception))

    def test_an_unreachable_archive_or_suite_is_reported(self):
        recipe = self.library.find('plain-node')
        for how, words in (
            ({'sources': [Source('http://127.0.0.1:9/debian', 'bookworm')]}, 'refused'),
            ({'suite': 'nosuch'}, '/dists/nosuch/InRelease'),
        ):
            with self.subTest(how), self.assertRaises(MirrorUnavailable) as caught:
                self.builder.build(recipe, **how)
            self.assertIn(words, str(caught.exception))


class Ending(BuildCase):
    def begun(self):
        """Return a command during its build."""
        process = self.command('image', 'build', 'plain-node')
        for line in process.stderr:
            if 'downloading' in line:
                return process
        raise AssertionError('the build ended too early')

    def gone(self):
        """Wait until no process uses the cache; the kernel needs a moment for that."""
        end = time.monotonic() + END_S
        while self.builders():
            self.assertLess(time.monotonic(), end, self.builders())
            time.sleep(0.02)

    def test_a_kill_leaves_no_process_and_no_image_and_the_next_build_works(self):
        process = self.begun()
        at_work = [one for one in self.builders() if one != process.pid]
        self.assertTrue(at_work)
        for one in at_work:
            # Stopped, so that no process can exit by itself.
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
        process.kill()
        process.wait()
        self.gone()
        self.assertEqual([], self.cache.images())
        self.assertTrue(self.cache.leftovers('plain-node'))
        image = self.builder.build(self.library.find('plain-node'))
        self.assertEqual([image], self.cache.images())
        self.assertFalse(self.cache.leftovers('plain-node'))

    def test_an_interrupt_cleans_up_and_is_reported(self):
        process = self.begun()
        process.send_signal(signal.SIGINT)
        self.assertEqual(130, process.wait(END_S))
        self.gone()
        self.assertEqual([], self.cache.images())
        self.assertFalse(self.cache.leftovers('plain-node'))

    def test_a_second_build_waits_and_returns_the_image_of_the_first(self):
        first = self.begun()
        first.send_signal(signal.SIGSTOP)
        second = self.command('image', 'build', 'plain-node')
        for line in second.stderr:
            if 'waiting for another process' in line:
                break
        first.send_signal(signal.SIGCONT)
        said, told = second.communicate(timeout=END_S)
        self.assertNotIn('downloading', told)
        self.assertEqual(first.communicate(timeout=END_S)[0], said)


def _rights(member):
    return member.uid, member.gid, member.mode
