"""Recipe library: parsing, bases, lookup and mistakes of recipes."""

import os
import pathlib
import tempfile
import unittest

import jsonschema
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.clusters.exceptions import InvalidCluster
from kiln.images.exceptions import AmbiguousRecipe, ImageNotFound, InvalidRecipe
from kiln.images.library import OWN, Library, Shelf
from kiln.images.recipe import Declared, Layer, Variant
from kiln.images.recipe_fields import RECIPE
from kiln.images.recipe_file import MAX_FILE_BYTES
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.reader import documents
from tests.examples import examples
from tests.unit.cluster_file.test_fuzz import SIGNS

WHOLE = """\
image: node
help: For tests.
variant: essential
suite: trixie
packages: [systemd-sysv, docker.io=20.10, curl/trixie-backports]
exclude: [/usr/share/man/*]
keep: [/usr/share/man/man1/*]
run: |
  systemctl mask getty@tty1.service
command: [/sbin/init]
properties: {kiln.init: systemd}
keep_sources: true
"""


class Shelves(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.library = Library([Shelf(self.folder, 'test')])

    def put(self, text, name='node', folder=None):
        path = (folder or self.folder) / name
        path.mkdir(parents=True, exist_ok=True)
        (path / 'image.yaml').write_text(text)
        return path

    def wrong(self, text, name='node'):
        self.put(text, name)
        with self.assertRaises(InvalidRecipe) as caught:
            self.library.find(name)
        return str(caught.exception)


class Reading(Shelves):
    def test_every_key_is_read(self):
        self.put(WHOLE)
        recipe = self.library.find('node')
        self.assertEqual(
            ('node', 'For tests.', Variant.ESSENTIAL, 'trixie', True),
            (recipe.name, recipe.help, recipe.variant, recipe.suite, recipe.keep_sources),
        )
        self.assertEqual(3, len(recipe.packages))
        self.assertEqual('systemctl mask getty@tty1.service\n', recipe.layers[0].run)
        self.assertEqual({'kiln.init': 'systemd'}, recipe.properties)
        self.assertEqual(('/usr/share/man/*',), recipe.exclude)
        self.assertEqual(('/usr/share/man/man1/*',), recipe.keep)
        self.assertEqual(('/sbin/init',), recipe.command)

    def test_a_name_alone_is_a_recipe(self):
        self.put('image: node')
        recipe = self.library.find('node')
        self.assertEqual(
            (Variant.APT, 'bookworm', ()), (recipe.variant, recipe.suite, recipe.packages)
        )

    def test_every_mistake_is_reported_with_line_and_column(self):
        said = self.wrong(
            'image: other\npackages: [Docker]\nexclude: [usr]\nvariant: aptt\nproperties: [a]\n'
            'packets: [x]\nkeep_sources: maybe\nproperties: {a b: c}\n'
        )
        lines = [line.split('image.yaml:')[1] for line in said.splitlines()]
        for line, (place, words) in zip(
            lines,
            (
                ('1:8', "the directory is 'node'"),
                ('2:12', 'write a package'),
                ('3:11', 'absolute path'),
                ('4:10', 'did you mean apt'),
                ('5:13', 'mapping of names'),
                ('6:1', 'did you mean packages'),
                ('7:15', 'true or false'),
                ('8:1', 'is already set'),
            ),
            strict=True,
        ):
            self.assertTrue(line.startswith(f'{place}: '), line)
            self.assertIn(words, line)

    def test_names_of_properties_have_no_spaces(self):
        self.assertIn('2:14', self.wrong('image: node\nproperties: {a b: c, d: 5}'))

    def test_a_key_of_another_tool_is_corrected(self):
        for other, key in (('from', 'base'), ('labels', 'properties'), ('install', 'packages')):
            self.assertIn(f'did you mean {key}?', self.wrong(f'image: node\n{other}: x'))

    def test_a_file_without_a_recipe_is_reported_with_advice(self):
        self.assertIn('begin it with image: NAME', self.wrong(''))
        self.assertIn('remove this one', self.wrong('image: node\n---\nimage: node'))
        self.assertIn('write a mapping', self.wrong('[a]'))
        self.assertIn('image is missing', self.wrong('packages: [x]'))

    def test_an_unreadable_file_is_reported(self):
        with self.assertRaises(InvalidRecipe) as caught:
            self.library.find(str(self.folder / 'nothing'))
        self.assertIn('nothing/image.yaml', str(caught.exception))

    @given(
        st.fixed_dictionaries(
            {'image': st.just('node')},
            optional={
                'packages': st.lists(st.from_regex('[a-z][a-z0-9]{1,5}', fullmatch=True),
                                     max_size=3, unique=True),
                'variant': st.sampled_from(list(map(str, Variant))),
                'run': st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
                'properties': st.dictionaries(
                    st.from_regex('[a-z][a-z._-]{0,6}', fullmatch=True),
                    st.from_regex('[a-z]{1,9}', fullmatch=True), max_size=3),
                'keep_sources': st.booleans(),
                'base': st.just('other'),
            },
        )
    )  # fmt: skip
    def test_a_written_recipe_reads_as_the_same(self, values):
        mistakes = Mistakes()
        (root,) = documents(yaml.safe_dump(values), mistakes)
        declared = RECIPE.read(root, mistakes)
        mistakes.raise_any()
        (again,) = documents(yaml.safe_dump(RECIPE.write(declared)), mistakes)
        self.assertEqual(declared, RECIPE.read(again, mistakes))

    def test_editors_can_check_a_recipe_with_the_schema(self):
        schema = RECIPE.schema()
        jsonschema.validate(yaml.safe_load(WHOLE), schema)
        for wrong in ({'image': 'A'}, {'image': 'a', 'properties': {'b c': 'd'}}, {'help': 'x'}):
            with self.subTest(wrong), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schema)

    @settings(max_examples=examples(100))
    @given(
        st.lists(
            st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), SIGNS | st.text(max_size=2)),
            min_size=1,
            max_size=4,
        )
    )
    def test_any_change_of_a_recipe_is_one_or_a_list_of_mistakes(self, changes):
        text = WHOLE
        for place, gone, new in changes:
            text = text[:place] + new + text[place + gone :]
        self.check_any(text)

    @given(st.binary(max_size=60))
    def test_any_bytes_are_a_recipe_or_a_list_of_mistakes(self, content):
        self.check_any(content)

    def check_any(self, content):
        mistakes = Mistakes()
        for root in documents(content, mistakes):
            if isinstance(RECIPE.read(root, mistakes), Declared):
                return
        try:
            mistakes.raise_any()
        except InvalidCluster as exc:
            self.assertTrue(exc.problems)


class Files(Shelves):
    def test_files_are_read_independent_of_their_modes_in_the_checkout(self):
        path = self.put('image: node') / 'files' / 'etc'
        path.mkdir(parents=True)
        for name, mode in (('a', 0o600), ('b', 0o664), ('c', 0o775)):
            (path / name).write_text(name)
            (path / name).chmod(mode)
        (path / 'd').symlink_to('a')
        (path / 'e').symlink_to('/usr')
        found = self.library.find('node').layers[0].files
        self.assertEqual(['/etc/a', '/etc/b', '/etc/c', '/etc/d', '/etc/e'],
                         [one.path for one in found])  # fmt: skip
        self.assertEqual([0o644, 0o644, 0o755], [one.mode for one in found[:3]])
        self.assertEqual((b'b', 'a', '/usr'), (found[1].content, found[3].link, found[4].link))

    def test_links_to_the_host_are_not_followed(self):
        host = self.folder / 'host'
        host.mkdir()
        (host / 'kiln.keys').write_text('current hunter2')
        path = self.put('image: node')
        (path / 'files').symlink_to(host)
        said = self.wrong('image: node')
        self.assertIn('files: it is a link, which kiln does not follow', said)
        (path / 'files').unlink()
        (path / 'image.yaml').unlink()
        (path / 'image.yaml').symlink_to(host / 'kiln.keys')
        with self.assertRaises(InvalidRecipe) as caught:
            self.library.find('node')
        self.assertIn('it is a link, which kiln does not follow', str(caught.exception))
        self.assertNotIn('hunter2', str(caught.exception))

    def test_special_and_large_files_are_reported(self):
        path = self.put('image: node') / 'files'
        path.mkdir()
        os.mkfifo(path / 'pipe')
        with (path / 'large').open('wb') as file:
            file.truncate(MAX_FILE_BYTES + 1)
        with self.assertRaises(InvalidRecipe) as caught:
            self.library.find('node')
        said = str(caught.exception)
        self.assertIn('pipe: it is neither a file nor a link', said)
        self.assertIn('large: it has more than', said)


class Bases(Shelves):
    def test_a_recipe_extends_its_base(self):
        self.put(WHOLE)
        self.put(
            'image: more\nbase: node\npackages: [curl, systemd-sysv]\nrun: x\n'
            'properties: {kiln.init: openrc, a: b}\nkeep_sources: false\n',
            'more',
        )
        base, recipe = self.library.find('node'), self.library.find('more')
        self.assertEqual((*base.packages, 'curl'), recipe.packages)
        self.assertEqual((*base.layers, Layer(run='x')), recipe.layers)
        self.assertEqual({'kiln.init': 'openrc', 'a': 'b'}, recipe.properties)
        self.assertEqual(
            (Variant.ESSENTIAL, 'trixie', ('/sbin/init',), False, ''),
            (recipe.variant, recipe.suite, recipe.command, recipe.keep_sources, recipe.help),
        )

    def test_a_missing_base_is_reported_with_its_recipe(self):
        self.put('image: node\nbase: gone')
        with self.assertRaises(ImageNotFound) as caught:
            self.library.find('node')
        self.assertIn("base 'gone' of image node", str(caught.exception))

    def test_a_cycle_of_bases_is_shown(self):
        self.put('image: node\nbase: other')
        self.put('image: other\nbase: node', 'other')
        with self.assertRaises(InvalidRecipe) as caught:
            self.library.find('node')
        self.assertIn('node -> other -> node', str(caught.exception))

    def test_a_recipe_that_is_its_own_base_is_reported(self):
        self.assertIn('node -> node', self.wrong('image: node\nbase: node'))


class Finding(Shelves):
    def test_all_names_are_listed_if_a_recipe_is_not_found(self):
        self.put('image: node')
        with self.assertRaises(ImageNotFound) as caught:
            self.library.find('nod')
        self.assertIn('debian-node, node, plain-node, swarm-node', str(caught.exception))

    def test_two_recipes_of_the_same_name_are_ambiguous(self):
        self.put('image: plain-node', 'plain-node')
        with self.assertRaises(AmbiguousRecipe) as caught:
            self.library.find('plain-node')
        self.assertIn(str(self.folder), str(caught.exception))
        self.assertIn(str(OWN), str(caught.exception))

    def test_a_shelf_listed_twice_does_not_duplicate_recipes(self):
        self.put('image: node')
        library = Library([Shelf(self.folder, 'a'), Shelf.at(f'{self.folder}/.')])
        self.assertEqual('node', library.find('node').name)

    def test_a_name_with_a_slash_is_a_directory(self):
        path = self.put('image: node')
        self.assertEqual('node', Library().find(f'{path}/').name)

    def test_missing_shelves_and_other_directories_are_ignored(self):
        (self.folder / 'README').write_text('x')
        (self.folder / 'empty').mkdir()
        shelves = [Shelf(self.folder, 'a'), Shelf(self.folder / 'no', 'b'),
                   Shelf(self.folder / 'README', 'c')]  # fmt: skip
        self.assertEqual(Library().entries(), Library(shelves).entries())

    def test_an_unreadable_shelf_is_logged_and_ignored(self):
        loop = self.folder / 'loop'
        loop.symlink_to(loop)
        with self.assertLogs('kiln.images.library', 'WARNING') as logs:
            Library([Shelf(loop, 'a')]).entries()
        self.assertIn(str(loop), logs.output[0])


class Own(unittest.TestCase):
    def test_the_recipes_of_kiln_are_valid(self):
        library = Library()
        found = {entry.name: library.find(entry.name) for entry in library.entries()}
        self.assertEqual({'debian-node', 'plain-node', 'swarm-node'}, set(found))
        for recipe in found.values():
            self.assertTrue(recipe.help)
            self.assertTrue(recipe.command)
            self.assertIn('kiln_distro', recipe.properties)

    def test_a_swarm_node_is_a_debian_node_with_an_engine(self):
        library = Library()
        base, node = library.find('debian-node'), library.find('swarm-node')
        self.assertEqual({'docker.io', 'iptables'}, set(node.packages) - set(base.packages))
        self.assertEqual(base.layers, node.layers[:1])
        said = {name: node.properties[name] for name in ('kiln.init', 'kiln.seed', 'kiln_distro')}
        self.assertEqual(
            {'kiln.init': 'systemd', 'kiln.seed': 'nocloud', 'kiln_distro': 'debian'}, said
        )
