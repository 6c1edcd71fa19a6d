"""Names and tags of stacks."""

import dataclasses
import unittest

from kiln.cluster_drivers.heat.names import (
    LONGEST_NAME,
    LONGEST_TAG,
    belongs,
    fitting,
    mark_of,
    site_tag,
    stack_name,
    tags,
    wanted_mark,
)
from tests.unit.cluster_drivers.heat.made import cluster_of


class Names(unittest.TestCase):
    def test_a_name_follows_from_site_and_cluster(self):
        self.assertEqual('kiln-east-c1', stack_name('east', 'c1'))

    def test_any_site_gives_a_name_that_heat_takes(self):
        for site in ('a b', 'münchen', 'x' * 300, 'a,b', 'a/b'):
            with self.subTest(site):
                self.assertRegex(stack_name(site, 'c1'), r'^[a-zA-Z][a-zA-Z0-9_.-]*$')
                self.assertLessEqual(len(stack_name(site, 'c1')), LONGEST_NAME)

    def test_different_texts_give_different_names(self):
        texts = ('a b', 'a-b', 'a_b', 'a/b', 'x' * 300, 'x' * 301)
        self.assertEqual(len(texts), len({fitting(text, 60) for text in texts}))

    def test_any_site_gives_tags_that_heat_takes(self):
        for site in ('east', 'a,b', 'x' * 100):
            for tag in tags(site, cluster_of(id_='c' * 90), 'mark'):
                with self.subTest(site=site, tag=tag):
                    self.assertLessEqual(len(tag), LONGEST_TAG)
                    self.assertNotIn(',', tag)


class Owners(unittest.TestCase):
    def test_a_stack_belongs_to_the_cluster_of_its_tags(self):
        found = tags('east', cluster_of(), 'm1')
        self.assertTrue(belongs(found, 'east', cluster_of()))
        self.assertIn(site_tag('east'), found)

    def test_a_stack_of_another_site_or_cluster_or_without_tags_does_not_belong(self):
        found = tags('east', cluster_of(), 'm1')
        self.assertFalse(belongs(found, 'west', cluster_of()))
        self.assertFalse(belongs(found, 'east', cluster_of(id_='c2')))
        self.assertFalse(belongs([], 'east', cluster_of()))

    def test_the_mark_is_found_among_the_tags(self):
        self.assertEqual('m1', mark_of(tags('east', cluster_of(), 'm1')))
        self.assertEqual('', mark_of(['kiln', 'other']))

    def test_a_mark_differs_for_each_generation_and_content(self):
        one = cluster_of()
        later = dataclasses.replace(one, generation=2)
        marks = {wanted_mark(one, 'a'), wanted_mark(one, 'b'), wanted_mark(later, 'a')}
        self.assertEqual(3, len(marks))
        self.assertEqual(wanted_mark(one, 'a'), wanted_mark(cluster_of(), 'a'))
