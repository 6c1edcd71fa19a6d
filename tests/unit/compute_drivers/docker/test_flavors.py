"""Flavors and sizes as written in a configuration."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.docker.flavors import Flavor, parse_flavors, parse_size
from kiln.exceptions import ConfigurationError

MIB = 1 << 20


class Sizes(unittest.TestCase):
    def test_sizes_are_parsed_as_engines_parse_them(self):
        for text, size in (
            ('512 MiB', 512 * MIB), ('64m', 64 * MIB), ('1.5g', 1536 * MIB), ('10', 10),
            ('1KB', 1024), (' 2 TiB ', 2 << 40),
        ):  # fmt: skip
            self.assertEqual(size, parse_size(text), text)

    @given(st.text(alphabet='0123456789kKmMgGiIbB. -', max_size=8))
    def test_text_that_is_not_a_size_raises_a_value_error(self, text):
        try:
            self.assertGreaterEqual(parse_size(text), 0)
        except ValueError as exc:
            self.assertIn('not a size', str(exc))


class Flavors(unittest.TestCase):
    def test_flavors_are_parsed(self):
        self.assertEqual(
            {
                'small': Flavor(nano_cpus=500_000_000, memory=512 * MIB),
                'big.1': Flavor(nano_cpus=4_000_000_000, memory=4096 * MIB, pids=4096),
                'free': Flavor(),
            },
            parse_flavors('small: 0.5 cpu, 512 MiB; big.1:4 CPUs,4g , 4096 pids;\n free:'),
        )

    def test_the_least_that_an_engine_allows_is_a_limit(self):
        least = Flavor(nano_cpus=10_000_000, memory=6 * MIB, pids=1)
        self.assertEqual({'a': least}, parse_flavors('a: 0.01 cpu, 6 MiB, 1 pids'))

    def test_an_empty_option_means_no_flavors(self):
        self.assertEqual({}, parse_flavors(' ; \n'))

    def test_a_mistake_is_reported_with_its_flavor(self):
        for text, said in (
            ('small', "at 'small'"),
            ('a b: 1 cpu', 'NAME: LIMIT'),
            ('a: 1 cpu; a: 2 cpu', 'a is defined twice'),
            ('a: 1 cpu, 2 cpus', 'repeats a limit'),
            ('a: fast', "flavor a: 'fast' is neither"),
            ('a: 0.001 cpu', 'less than 0.01'),
            ('a: 1 MiB', 'less than 6 MiB'),
            ('a: 0 pids', 'allows no process'),
            ('a: fast, 0 pids', "'fast' is neither"),
            (f'a: {"9" * 400} MiB', 'is neither'),
            (f'a: {"9" * 400} cpus', 'is neither'),
            (f'a: {"9" * 5000} pids', 'is neither'),
            ('a: ,', 'flavor a'),
        ):
            with self.subTest(text), self.assertRaises(ConfigurationError) as caught:
                parse_flavors(text)
            self.assertIn(said, str(caught.exception))

    @given(
        st.dictionaries(
            st.from_regex(r'[a-z][a-z0-9.-]{0,8}', fullmatch=True),
            st.tuples(st.integers(1, 64), st.integers(6, 9999), st.integers(1, 9999)),
            max_size=4,
        )
    )
    def test_formatted_flavors_parse_to_the_same_values(self, wanted):
        text = '; '.join(f'{n}: {c} cpus, {m} MiB, {p} pids' for n, (c, m, p) in wanted.items())
        self.assertEqual(
            {
                name: Flavor(nano_cpus=cpus * 10**9, memory=mib * MIB, pids=pids)
                for name, (cpus, mib, pids) in wanted.items()
            },
            parse_flavors(text),
        )

    @given(st.text(alphabet='ab:;, 0123cpumiB.', max_size=30))
    def test_any_text_is_parsed_or_a_configuration_error(self, text):
        try:
            parse_flavors(text)
        except ConfigurationError:
            return
