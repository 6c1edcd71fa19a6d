"""Tests of the commands about images, with fake package tools."""

import io
import json
import os
import unittest

from kiln.cli.output.image_progress import Drawn, JsonLines, said
from kiln.images.building.progress import Progress, Stage
from kiln.testing.clock import VirtualClock
from tests.unit.cli.shell import Shell
from tests.unit.images.host import Host

RECIPE = 'image: web\nhelp: For tests.\npackages: [docker.io]\ncommand: [/sbin/init]\n'
ENGINE = """\
[compute:engine]
driver = noop
"""


class ImageShell(Shell):
    def setUp(self):
        super().setUp()
        self.host = Host(self.folder)
        with self.config.open('a') as config:
            config.write(
                f'{ENGINE}[images]\nimage_path = {self.folder}/images\n'
                f'cache = {self.folder}/cache\n'
            )
        self.recipe()
        # The commands search for programs in PATH.
        self.addCleanup(os.environ.update, PATH=os.environ['PATH'])
        os.environ['PATH'] = str(self.host.folder)

    def recipe(self, text=RECIPE, name='web'):
        folder = self.folder / 'images' / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'image.yaml').write_text(text)


class Building(ImageShell):
    def test_it_prints_the_path_of_the_image_and_shows_progress(self):
        path = self.ok('image', 'build', 'web').strip()
        with open(path) as file:
            self.assertEqual('a root file system', file.read())
        self.assertIn('web: reading the archives\nweb: packing\n', self.err)
        self.assertIn('kiln/web:', self.err)
        self.assertEqual(path, self.ok('image', 'build', 'web').strip())
        self.assertEqual(1, self.host.runs)
        self.ok('image', 'build', 'web', '--force')
        self.ok('-q', 'image', 'build', 'web', '--max-age', '1d')
        self.assertEqual((2, ''), (self.host.runs, self.err))

    def test_programs_read_a_line_for_each_stage_and_then_the_image(self):
        lines = [
            json.loads(line)
            for line in self.ok('image', 'build', 'web', '-f', 'json').splitlines()
        ]
        self.assertEqual(['asking', 'packing'], [one['stage'] for one in lines[:-1]])
        self.assertEqual(('web', ['/sbin/init']), (lines[-1]['name'], lines[-1]['command']))

    def test_a_recipe_can_be_given_as_a_directory(self):
        self.assertIn('/web/', self.ok('image', 'build', f'{self.folder}/images/web'))

    def test_archives_are_named_by_options(self):
        self.ok('image', 'build', 'web', '--mirror', 'http://m/debian', '--suite', 'trixie')
        self.assertEqual(['http://m/debian/dists/trixie/InRelease'] * 2, self.host.said('asked'))
        self.ok('image', 'build', 'web', '--snapshot', '20250520T000000Z')
        self.assertIn('archive/debian/20250520T000000Z/', self.host.said('asked')[2])

    def test_archives_are_named_by_the_configuration(self):
        with self.config.open('a') as config:
            config.write('mirror = deb http://a/debian bookworm main\nmirror = http://b/debian\n')
        self.ok('image', 'build', 'web')
        self.assertEqual(
            {f'http://{one}/debian/dists/bookworm/InRelease' for one in 'ab'},
            set(self.host.said('asked')),
        )

    def test_invalid_arguments_are_refused_with_advice(self):
        for argv, words in (
            (['--mirror', 'x'], 'write a URL'),
            (['--snapshot', 'today'], '20250520T000000Z'),
            (['--snapshot', '20250520T000000Z', '--mirror', 'http://m'], 'leave out one'),
        ):
            with self.subTest(argv):
                self.assertIn(words, self.fails(2, 'image', 'build', 'web', *argv))
        self.assertIn('plain-node, swarm-node, web', self.fails(3, 'image', 'build', 'wbe'))

    def test_mistakes_in_a_recipe_have_their_lines(self):
        self.recipe('image: web\npackets: [x]\n')
        self.assertIn('image.yaml:2:1: ', self.fails(2, 'image', 'build', 'web'))

    def test_the_reason_of_a_failure_determines_the_status(self):
        self.host.set('says', 'E: Unable to locate package dokcer\n')
        self.host.set('status', '25')
        self.assertIn('dokcer', self.fails(3, 'image', 'build', 'web'))
        self.host.set('deaf', '')
        self.fails(6, 'image', 'build', 'web')
        self.host.unset('dpkg')
        self.assertIn('apt-get install dpkg', self.fails(8, 'image', 'build', 'web'))

    def test_a_backend_without_image_import_is_refused_before_the_build(self):
        said = self.fails(8, 'image', 'build', 'web', '--into', 'engine')
        self.assertIn('does not import root file systems', said)
        self.assertEqual(0, self.host.runs)

    def test_a_missing_backend_is_reported_before_the_build(self):
        self.fails(2, 'image', 'build', 'web', '--into', 'gone')
        self.assertEqual(0, self.host.runs)


class Looking(ImageShell):
    def rows(self):
        found = self.json('image', 'list')
        return {one['name']: one['state'] for one in found if one['recipe'] != 'kiln'}

    def test_recipes_are_listed_with_their_images(self):
        self.assertEqual({'web': 'not built'}, self.rows())
        self.ok('image', 'build', 'web')
        self.assertEqual({'web': 'built'}, self.rows())
        self.recipe(RECIPE + 'keep_sources: true\n')
        self.assertEqual({'web': 'recipe changed'}, self.rows())
        (self.folder / 'images/web/image.yaml').unlink()
        self.assertEqual({'web': 'no recipe'}, self.rows())

    def test_a_broken_recipe_does_not_hide_others(self):
        self.recipe('image: wrong\nx: y\n', 'wrong')
        self.assertEqual({'web': 'not built', 'wrong': 'broken'}, self.rows())
        self.assertIn('image.yaml:2:1: ', self.err)

    def test_recipes_of_cluster_drivers_are_found_beside_them(self):
        driver = self.folder / 'drivers' / 'web_v1'
        (driver / 'image' / 'beside').mkdir(parents=True)
        (driver / 'image' / 'beside' / 'image.yaml').write_text('image: beside\n')
        (driver / 'driver.yaml').write_text(
            'name: web_v1\nversion: 1.0.0\nprovides: [[vm, debian, web]]\n'
        )
        with self.config.open('a') as config:
            config.write(f'[clusters]\ndriver_path = {self.folder}/drivers\n')
        (row,) = [one for one in self.json('image', 'list') if one['name'] == 'beside']
        self.assertEqual('cluster driver web_v1', row['recipe'])

    def test_an_image_shows_its_contents(self):
        self.ok('image', 'build', 'web')
        shown = self.json('image', 'show', 'web')
        self.assertEqual({'docker.io': '20.10', 'base-files': '12'}, shown['packages'])
        self.assertEqual('2026-11-20T02:11:10Z', shown['archives_of'])
        self.assertIn('kiln image build gone', self.fails(3, 'image', 'show', 'gone'))


class Removing(ImageShell):
    def test_an_image_is_removed_by_name_or_by_digest(self):
        self.ok('image', 'build', 'web')
        digest = self.json('image', 'show', 'web')['digest'][:12]
        said = self.fails(3, 'image', 'remove', 'web', '--digest', 'zz')
        self.assertIn(f'kiln/web:{digest}', said)
        self.ok('image', 'remove', 'web', '--digest', digest)
        self.assertIn('Existing images: none', self.fails(3, 'image', 'remove', 'web'))

    def test_pruning_reports_the_freed_space(self):
        self.ok('image', 'build', 'web')
        self.ok('image', 'prune')
        self.assertIn('0 images', self.err)
        self.ok('image', 'prune', '--keep', '0')
        self.assertIn('1 images', self.err)
        self.assertIn("'x'", self.fails(2, 'image', 'prune', '--keep', 'x'))


class Terminal(ImageShell):
    terminal = True

    def test_on_a_terminal_the_progress_is_drawn(self):
        self.ok('image', 'build', 'web')
        self.assertIn('packing', self.err)


class Screens(unittest.TestCase):
    def test_the_bar_is_proportional_to_the_progress(self):
        clock = VirtualClock()
        drawn = Drawn('web', clock)
        drawn.show(Progress(Stage.INSTALLING, 15, 30, 'docker.io'))
        clock.advance(3)
        text = drawn.__rich__().plain
        self.assertEqual(30, text.count('━'))
        self.assertIn('15/30  3 s  docker.io', text)
        drawn.show(Progress(Stage.PACKING))
        self.assertNotIn('━', drawn.__rich__().plain)

    def test_json_lines_of_a_stage_come_once_a_second(self):
        clock, out = VirtualClock(), io.StringIO()
        lines = JsonLines('web', out, clock)
        for done in range(5):
            lines(Progress(Stage.INSTALLING, done, 5))
            clock.advance(0.5)
        self.assertEqual(
            [0, 2, 4], [json.loads(line)['done'] for line in out.getvalue().splitlines()]
        )

    def test_the_reason_of_waiting_is_named(self):
        self.assertIn('another process', said(Progress(Stage.WAITING)))
        self.assertIn('importing into east', said(Progress(Stage.IMPORTING, subject='east')))
        self.assertEqual('downloading (3 steps)', said(Progress(Stage.DOWNLOADING, 0, 3)))
