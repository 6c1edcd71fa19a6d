"""Image cache shared by several processes."""

import dataclasses
import json
import pathlib
import tempfile
import unittest

from kiln.images.cache import Image, ImageCache
from kiln.images.exceptions import ImageError, ImageNotFound


class Cache(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'images'
        self.cache = ImageCache(self.root)

    def put(self, name='node', key='k1', content='tar', **facts):
        facts = {
            'digest': f'digest of {content}', 'size': 3, 'recipe': 'r', 'suite': 'bookworm',
            'architecture': 'amd64', 'sources': ('deb http://d bookworm main',), 'epoch': 7,
            'built_at': 10.0, 'took_s': 1.5, 'command': ('/sbin/init',), 'properties': {'a': 'b'},
            'packages': {'docker.io': '20'}, **facts,
        }  # fmt: skip
        with self.cache.locked(name):
            stage = self.cache.stage(name)
            (stage / 'image.tar').write_text(content)
            image = self.cache.publish(stage, Image(name=name, key=key, **facts))
            stage.rmdir()
        return image

    def test_a_published_image_is_found_unchanged(self):
        image = self.put()
        self.assertEqual(image, self.cache.find('node', 'k1'))
        self.assertEqual('tar', image.path.read_text())
        self.assertIsNone(self.cache.find('node', 'k2'))
        self.assertIsNone(self.cache.find('other', 'k1'))

    def test_the_newest_of_a_name_comes_first(self):
        old, new = self.put(), self.put(key='k2', built_at=11.0)
        other = self.put(name='a')
        self.assertEqual([other, new, old], self.cache.images())
        self.assertEqual([new, old], self.cache.images('node'))
        self.assertEqual(new, self.cache.newest('node'))

    def test_an_image_published_again_replaces_the_first(self):
        self.put()
        second = self.put(content='other')
        self.assertEqual([second], self.cache.images())
        self.assertEqual('other', second.path.read_text())

    def test_removing_twice_is_a_success(self):
        image = self.put()
        self.cache.remove(image)
        self.cache.remove(image)
        self.assertEqual([], self.cache.images())
        with self.assertRaises(ImageNotFound) as caught:
            self.cache.newest('node')
        self.assertIn('kiln image build node', str(caught.exception))

    def test_a_kill_at_any_step_leaves_a_complete_image_or_none(self):
        image = self.put()
        final = image.path.parent
        for left in ('.old-k1', '.stage-x'):
            (final.parent / left).mkdir()
            (final.parent / left / 'image.json').write_text('{}')
        self.assertEqual([image], self.cache.images())
        self.assertEqual(2, len(self.cache.leftovers('node')))
        self.assertEqual('tar', self.put(content='tar').path.read_text())

    def test_files_of_another_version_are_not_images(self):
        image = self.put()
        facts = image.path.with_name('image.json')
        written = json.loads(facts.read_text())
        for text in ('', '[]', '{}', json.dumps({**written, 'novel': 1})):
            facts.write_text(text)
            with self.subTest(text[:9]):
                self.assertEqual([], self.cache.images())

    def test_a_second_process_waits_for_the_lock(self):
        waited = []
        with self.cache.locked('node'), self.cache.locked('other', lambda: waited.append('other')):
            second = ImageCache(self.root)

            def tell():
                waited.append('node')
                raise InterruptedError

            with self.assertRaises(InterruptedError), second.locked('node', tell):
                self.fail('two have the lock')
        self.assertEqual(['node'], waited)
        with self.cache.locked('node', lambda: self.fail('nobody has it')):
            pass

    def test_an_unwritable_cache_is_reported_with_its_option(self):
        self.root.write_text('a file')
        with self.assertRaises(ImageError) as caught, self.cache.locked('node'):
            self.fail('locked')
        self.assertIn('[images] cache', str(caught.exception))
        self.assertEqual([], self.cache.images())

    def test_a_reference_contains_the_name_and_the_digest(self):
        image = dataclasses.replace(self.put(), digest='0123456789abcdef')
        self.assertEqual('kiln/node:0123456789ab', image.reference)
