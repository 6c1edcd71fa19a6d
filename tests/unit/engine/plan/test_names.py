"""Names are host names, and neither names nor ids are reused."""

import random
import re
import unittest
import uuid

from hypothesis import given
from hypothesis import strategies as st

from kiln.engine.plan.names import Naming
from tests.unit.engine.groups import UNTIMED

HOST = re.compile(r'^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')


class Stuck(random.Random):
    """Generates the same name twice before another one."""

    turns = 0

    def choices(self, population, k=1, **_):
        self.turns += 1
        return ['b' if self.turns < 3 else 'c'] * k


class Names(unittest.TestCase):
    def test_a_name_contains_cluster_and_group(self):
        name = Naming().new_name('prod', 'work', ())
        self.assertRegex(name, r'^prod-work-[a-z0-9]{5}$')

    def test_a_name_is_never_reused(self):
        naming = Naming(Stuck())
        first = naming.new_name('prod', 'work', ())
        second = naming.new_name('prod', 'work', {first})
        self.assertEqual(('prod-work-bbbbb', 'prod-work-ccccc'), (first, second))

    def test_the_same_seed_gives_the_same_names_and_ids(self):
        def row(seed):
            naming = Naming(random.Random(seed))
            return naming.new_id(), naming.new_name('c', 'g', ())

        self.assertEqual(row(1), row(1))
        self.assertNotEqual(row(1), row(2))

    def test_an_id_is_a_uuid(self):
        self.assertEqual(4, uuid.UUID(Naming().new_id()).version)

    def test_long_names_keep_their_group(self):
        name = Naming().new_name('c' * 100, 'workers', ())
        self.assertRegex(name, r'^c{49}-workers-[a-z0-9]{5}$')

    @UNTIMED
    @given(st.text(max_size=80), st.text(max_size=80))
    def test_every_name_is_a_host_name(self, cluster, group):
        self.assertRegex(Naming().new_name(cluster, group, ()), HOST)
