"""Image builder on a host with scripted package tools."""

import pathlib
import threading
import unittest

from kiln.images.archives.sources import Source
from kiln.images.building.progress import Progress, Stage
from kiln.images.building.sandbox import Cell
from kiln.images.exceptions import (
    BuildToolMissing,
    ImageBuildFailed,
    ImageBuildForbidden,
    ImageError,
    MirrorUnavailable,
    PackageNotFound,
)
from kiln.images.recipe import File, Layer
from tests.unit.images.host import EPOCH, RELEASE, HostCase, recipe

LATER = 'Sat, 21 Nov 2026 08:00:00 UTC'


class Building(HostCase, unittest.TestCase):
    def test_an_image_is_stored_with_its_input(self):
        image = self.builder.build(recipe(properties={'kiln.init': 'systemd'}))
        self.assertEqual('a root file system', image.path.read_text())
        self.assertEqual(
            ('node', 'bookworm', 'amd64'), (image.name, image.suite, image.architecture)
        )
        self.assertEqual({'docker.io': '20.10', 'base-files': '12'}, image.packages)
        self.assertEqual({'kiln.init': 'systemd', 'kiln.image': 'node'}, image.properties)
        self.assertEqual((('/sbin/init',), EPOCH), (image.command, image.epoch))
        self.assertEqual(image, self.cache.newest('node'))
        self.assertRegex(image.reference, r'^kiln/node:[0-9a-f]{12}$')
        self.assertEqual(0o644, image.path.stat().st_mode & 0o777)

    def test_the_command_is_logged_quoted_for_a_shell(self):
        with self.assertLogs('kiln.images.building.builder', 'DEBUG') as logged:
            self.builder.build(recipe(exclude=('/usr/share/man/*',)))
        self.assertIn(" '--dpkgopt=path-exclude=/usr/share/man/*' ", logged.output[0])

    def test_an_image_of_the_same_input_is_not_built_again(self):
        first = self.builder.build(recipe())
        self.assertEqual(first, self.builder.build(recipe()))
        self.assertEqual(1, self.host.runs)

    def test_an_image_is_built_again_if_any_input_changes(self):
        keys = {self.builder.build(recipe()).key}
        for one in (
            recipe(packages=('podman',)),
            recipe(exclude=('/usr/share/man/*',)),
            recipe(layers=(Layer(run='true'),)),
            recipe(layers=(Layer(files=(File(path='/etc/motd', content=b'hello'),)),)),
        ):
            keys.add(self.builder.build(one).key)
        keys.add(self.builder.build(recipe(), suite='trixie').key)
        keys.add(self.builder.build(recipe(), sources=[Source('http://m/debian', 'bookworm')]).key)
        self.host.set('release', RELEASE.format(date=LATER))
        keys.add(self.builder.build(recipe()).key)
        self.assertEqual((8, 8), (len(keys), self.host.runs))

    def test_a_change_of_the_help_text_does_not_change_the_image(self):
        self.builder.build(recipe())
        self.builder.build(recipe(help='For tests.'))
        self.assertEqual(1, self.host.runs)

    def test_force_builds_an_image_again(self):
        first = self.builder.build(recipe())
        self.host.clock.advance(5)
        self.host.set('content', 'another')
        second = self.builder.build(recipe(), force=True)
        self.assertEqual((first.key, 'another'), (second.key, second.path.read_text()))
        self.assertEqual([second], self.cache.images())
        self.assertEqual(4, len(self.host.entries()), self.host.entries())

    def test_a_recent_image_is_returned_without_contacting_archives(self):
        first = self.builder.build(recipe())
        self.host.set('deaf', "E: Failed to fetch http://d  Could not resolve 'd'\n")
        self.host.clock.advance(100)
        self.assertEqual(first, self.builder.build(recipe(), max_age_s=101))
        for old in (
            {'max_age_s': 99},
            {'max_age_s': 101, 'force': True},
            {'max_age_s': 101, 'suite': 'trixie'},
            {'max_age_s': 101, 'sources': [Source('http://m/debian', 'bookworm')]},
        ):
            with self.subTest(old), self.assertRaises(MirrorUnavailable):
                self.builder.build(recipe(), **old)
        with self.assertRaises(MirrorUnavailable):
            self.builder.build(recipe(packages=()), max_age_s=101)

    def test_a_change_of_the_archives_restarts_the_build(self):
        # The suite and its updates are three archives; the fourth download follows the build.
        self.host.program(
            'apt-helper',
            'n=$(cat "$here/n" 2>/dev/null || echo 0); n=$((n + 1)); echo $n > "$here/n"\n'
            '[ $n -gt 3 ] && cat "$here/later" > "$3" || cat "$here/release" > "$3"',
        )
        self.host.set('later', RELEASE.format(date=LATER))
        image = self.builder.build(recipe())
        self.assertEqual(2, self.host.runs)
        self.assertEqual(EPOCH + 107330, image.epoch)
        self.assertEqual([image], self.cache.images())

    def test_archives_that_keep_changing_are_reported(self):
        self.host.program(
            'apt-helper', 'echo x >> "$here/n"; cat "$here/release" "$here/n" > "$3"'
        )
        with self.assertRaises(MirrorUnavailable) as caught:
            self.builder.build(recipe())
        self.assertIn('keep changing during the build', str(caught.exception))
        self.assertEqual((3, []), (self.host.runs, self.cache.images()))

    def test_the_settings_of_the_host_reach_the_archives_and_stay_private(self):
        self.builder.build(recipe(layers=(Layer(files=(File(path='/etc/motd'),), run='x'),)))
        self.assertEqual(
            ['apt.conf', 'begin', 'end', 'lay-0', 'layer-0.folders', 'layer-0.sh', 'layer-0.tar',
             'run-0'],
            self.host.said('stage'),
        )  # fmt: skip
        self.assertNotIn('3128', '\n'.join(self.host.said('arguments')))

    def test_the_environment_of_the_host_does_not_affect_the_build(self):
        self.builder.build(recipe())
        found = dict(line.split('=', 1) for line in self.host.said('environment') if '=' in line)
        wanted = ('KILN_STAGE', 'SOURCE_DATE_EPOCH', 'TMPDIR', 'PYTHONHASHSEED', 'PATH', 'LC_ALL')
        proxies = {name for name in found if name.endswith('_proxy')}
        self.assertEqual(set(wanted), set(found) - proxies - {'PWD', 'SHLVL', '_', 'HOME'})
        self.assertEqual(str(EPOCH), found['SOURCE_DATE_EPOCH'])

    def test_progress_is_reported(self):
        self.host.set(
            'says',
            'I: downloading packages with apt...\n'
            '0 upgraded, 2 newly installed, 0 to remove\n'
            'Get:1 http://d/debian bookworm/main amd64 libc6 amd64 2.36 [2 kB]\n'
            'I: creating tarball...\n',
        )
        told = []
        self.builder.build(recipe(), report=told.append)
        self.assertEqual(
            [
                Progress(Stage.ASKING),
                Progress(Stage.DOWNLOADING),
                Progress(Stage.DOWNLOADING, 0, 2),
                Progress(Stage.DOWNLOADING, 1, 2, 'libc6'),
                Progress(Stage.PACKING),
            ],
            told,
        )


class Failing(HostCase, unittest.TestCase):
    def fails(self, kind, **facts):
        with self.assertRaises(kind) as caught:
            self.builder.build(recipe(**facts))
        self.assertEqual([], self.cache.images())
        return str(caught.exception)

    def test_a_failure_leaves_its_log_and_no_image(self):
        self.host.set('says', 'I: running apt-get update\nE: Unable to locate package dokcer\n')
        self.host.set('status', '25')
        said = self.fails(PackageNotFound)
        self.assertIn('no package dokcer', said)
        log = pathlib.Path(said.rpartition(' ')[2])
        self.assertIn('dokcer', log.read_text())
        self.assertFalse(log.stat().st_mode & 0o007)
        self.assertEqual(['node', 'node.log'], self.host.entries())

    def test_a_failure_leaves_the_existing_image(self):
        first = self.builder.build(recipe())
        self.host.set('status', '1')
        with self.assertRaises(ImageBuildFailed):
            self.builder.build(recipe(), force=True)
        self.assertEqual([first], self.cache.images())

    def test_a_missing_program_is_reported_with_its_package(self):
        for name, package in (
            ('mmdebstrap', 'mmdebstrap'),
            ('dpkg', 'dpkg'),
            ('unshare', 'util-linux'),
        ):
            (self.host.folder / name).rename(self.folder / name)
            with self.subTest(name):
                self.assertIn(f'apt-get install {package}', self.fails(BuildToolMissing))
            (self.folder / name).rename(self.host.folder / name)

    def test_a_user_without_rights_gets_instructions(self):
        self.host.set('locked', '')
        said = self.fails(ImageBuildForbidden)
        self.assertIn('Operation not permitted', said)
        self.assertIn('/etc/subuid', said)

    def test_an_unreachable_archive_is_reported(self):
        self.host.set('deaf', "E: Failed to fetch http://d/x  Could not resolve 'd'\nE: Failed.\n")
        said = self.fails(MirrorUnavailable)
        self.assertIn('http://deb.debian.org/debian/dists/bookworm/InRelease', said)
        self.assertIn("Could not resolve 'd'", said)

    def test_an_archive_that_fails_without_a_reason_is_reported(self):
        self.host.set('deaf', '')
        self.assertIn('no reason is given', self.fails(MirrorUnavailable))

    def test_a_web_page_instead_of_a_release_file_is_refused(self):
        for page in ('<html>Log in</html>', 'Date: tomorrow\n'):
            self.host.set('release', page)
            with self.subTest(page):
                self.assertIn('not an InRelease file', self.fails(MirrorUnavailable))

    def test_errors_of_package_tools_are_quoted(self):
        self.host.program('apt-get', 'echo "E: Malformed line 3" >&2; exit 100')
        self.assertIn('Malformed line 3', self.fails(ImageError))


class Several(HostCase, unittest.TestCase):
    def begin(self, told, **how):
        thread = threading.Thread(
            target=lambda: self.found.append(
                self.host.builder.build(recipe(), report=told.append, **how)
            )
        )
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def test_two_builders_of_one_image_build_it_once(self):
        for how in ({}, {'force': True}):
            with self.subTest(how):
                self.found, first, second = [], [], []
                runs = self.host.runs
                self.host.set('hold', '')
                threads = [self.begin(first, **how)]
                while self.host.runs == runs:
                    threads[0].join(0.01)
                threads.append(self.begin(second, **how))
                while Progress(Stage.WAITING) not in second:
                    threads[1].join(0.01)
                self.host.unset('hold')
                for thread in threads:
                    thread.join()
                self.assertEqual(runs + 1, self.host.runs)
                self.assertEqual(self.found[0], self.found[1])
                self.host.clock.advance(1)


class Interrupted(HostCase, unittest.TestCase):
    def test_an_interrupt_ends_the_build_and_leaves_nothing(self):
        self.host.program(
            'mmdebstrap', 'echo $$ > "$here/pid"; echo "I: creating tarball..."; sleep 60'
        )

        def interrupt(progress):
            if progress.stage is Stage.PACKING:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.builder.build(recipe(), report=interrupt)
        self.assertFalse(pathlib.Path('/proc', self.host.said('pid')[0]).exists())
        self.assertEqual(['node', 'node.log'], self.host.entries())

    def test_leftovers_of_a_killed_build_are_removed_by_the_next(self):
        left = self.cache.stage('node')
        (left / 'image.tar').write_text('half')
        self.assertIsNone(self.cache.find('node', left.name))
        image = self.builder.build(recipe())
        self.assertEqual([image], self.cache.images())
        self.assertFalse(left.exists())

    def test_pruning_keeps_the_newest_of_each_name(self):
        old = self.builder.build(recipe())
        self.host.clock.advance(1)
        new = self.builder.build(recipe(packages=()))
        other = self.builder.build(recipe(name='other'))
        left = self.cache.stage('node')
        self.assertEqual([old], self.builder.prune())
        self.assertEqual([new, other], self.cache.images())
        self.assertFalse(left.exists())
        self.assertEqual([], self.builder.prune(keep=2))
        self.assertEqual([new, other], self.builder.prune(keep=0))
        self.assertEqual([], self.cache.images())


class Cells(HostCase, unittest.TestCase):
    def test_a_user_other_than_root_gets_a_user_namespace(self):
        command = Cell(self.host.programs(), root=False).command(['x'])
        self.assertEqual(['--user', '--map-root-user', '--map-auto'], command[4:7])
        self.assertNotIn('--user', Cell(self.host.programs(), root=True).command(['x']))

    def test_a_missing_newuidmap_is_reported_with_its_package(self):
        self.host.unset('newuidmap')
        with self.assertRaises(BuildToolMissing) as caught:
            Cell(self.host.programs(), root=False).command(['x'])
        self.assertIn('apt-get install uidmap', str(caught.exception))

    def test_files_of_namespace_users_are_removed_in_the_namespace(self):
        inside = self.folder / 'stage'
        for root in (True, False):
            (inside / 'deep').mkdir(parents=True)
            Cell(self.host.programs(), root=root).remove([inside])
            self.assertFalse(inside.exists())

    def test_an_exit_status_is_reported_without_output(self):
        self.host.program('unshare', 'exit 3')
        with self.assertRaises(ImageBuildForbidden) as caught:
            Cell(self.host.programs()).check()
        self.assertIn('exit status 3', str(caught.exception))
