"""Mistakes in a cluster file: one line for each, with its position."""

import pathlib
import unittest

from kiln.cluster_file.reading import read
from kiln.clusters.exceptions import InvalidCluster, Problem

PAGE = pathlib.Path(__file__).with_name('mistakes.yaml')
ANSWERS = PAGE.with_suffix('.txt')


def problems(content, file=''):
    try:
        read(content, file)
    except InvalidCluster as exc:
        return exc.problems
    return ()


class EveryMistake(unittest.TestCase):
    maxDiff = None

    # Measured: 50 ms of CPU for the file, 45 ms for 500 lines without a mistake.
    def test_a_file_of_500_lines_gives_one_line_for_each_mistake(self):
        content = PAGE.read_bytes()
        self.assertGreater(len(content.splitlines()), 500)
        said = [str(problem) for problem in problems(content, PAGE.name)]
        self.assertEqual(ANSWERS.read_text().splitlines(), said)
        self.assertGreater(len(said), 200)

    def test_no_mistake_is_reported_twice(self):
        places = [(one.line, one.column) for one in problems(PAGE.read_bytes())]
        self.assertEqual(sorted(set(places)), places)

    def test_every_message_contains_advice(self):
        for problem in problems(PAGE.read_bytes()):
            with self.subTest(str(problem)):
                self.assertRegex(
                    problem.message,
                    r'; .*(write|make|remove|keep|begin|belongs|mean|save|add|align)',
                )


class WhereItIs(unittest.TestCase):
    def places(self, content):
        return [(one.line, one.column, one.path) for one in problems(content)]

    def test_lines_are_counted_across_documents(self):
        page = 'template: a\n---\ncluster: b\ntemplate: a\nimage: 3\n'
        self.assertIn((5, 8, 'image'), self.places(page))

    def test_windows_line_ends_and_a_byte_order_mark_are_accepted(self):
        page = b'\xef\xbb\xbfcluster: a\r\ntemplate: b\r\nimage: 3\r\n'
        self.assertEqual([(3, 8, 'image')], self.places(page))

    def test_a_byte_that_is_not_utf8_has_a_position(self):
        page = 'cluster: a\nimage: ä'.encode('latin-1')
        self.assertEqual([(2, 8, '')], self.places(page))

    def test_a_merged_value_has_the_position_of_its_anchor(self):
        page = (
            'cluster: a\nnodegroups:\n'
            '  - &x {name: x, count: 1, strategy: {batch: 0}}\n'
            '  - {<<: *x, name: y}\n'
        )  # fmt: skip
        self.assertEqual([(3, 46, 'nodegroups[0].strategy.batch')], self.places(page))

    def test_the_error_names_the_file_and_the_path(self):
        (problem,) = problems('cluster: a\ntemplate: b\nimage: 3\n', 'web.yaml')
        self.assertEqual('web.yaml:3:8: image: 3 is a number', str(problem).partition(';')[0])


class OneMistakeOnly(unittest.TestCase):
    """Consequences of a mistake are not reported as further mistakes."""

    def said(self, group):
        return [one.path for one in problems(f'cluster: a\nnodegroups:\n- {group}\n')]

    def test_counts_with_an_invalid_count_are_not_added_up(self):
        self.assertEqual(
            ['nodegroups[0].flavors.y'],
            self.said('{name: b, count: 3, flavors: {x: 1, y: no}}'),
        )

    def test_an_invalid_count_is_not_reported_as_missing(self):
        self.assertEqual(['nodegroups[0].count'], self.said('{name: b, count: three}'))

    def test_with_invalid_zones_the_count_is_not_reported_as_missing(self):
        self.assertEqual(['nodegroups[0].zones.x'], self.said('{name: b, zones: {x: many}}'))

    def test_an_invalid_bound_is_not_compared(self):
        self.assertEqual(
            ['nodegroups[0].max_count'], self.said('{name: b, count: 3, max_count: "2"}')
        )

    def test_an_invalid_share_does_not_count_as_zero(self):
        self.assertEqual(
            ['nodegroups[0].strategy.max_unavailable'],
            self.said('{name: b, count: 1, strategy: {max_surge: 0, max_unavailable: x}}'),
        )

    def test_a_misspelt_key_is_not_reported_as_missing(self):
        self.assertEqual(['nodegroups[0].nmae'], self.said('{nmae: b, count: 3}'))


class TooMuch(unittest.TestCase):
    def said(self, content):
        (problem,) = problems(content)
        self.assertIsInstance(problem, Problem)
        return problem.message

    def test_a_large_file_is_refused(self):
        self.assertIn('more than 1048576 bytes', self.said(b'#' * (1024 * 1024 + 1)))

    def test_an_alias_bomb_is_refused(self):
        page = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
        page += [f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]' for n in range(1, 9)]
        self.assertIn('more than 100000 values', self.said('\n'.join(page)))

    def test_a_merge_bomb_is_refused(self):
        page = ['a0: &a0 {' + ', '.join(f'k{n}: x' for n in range(100)) + '}']
        page += [f'a{n}: &a{n} {{<<: *a{n - 1}, b{n}: *a{n - 1}}}' for n in range(1, 20)]
        self.assertIn('more than 100000 values', self.said('\n'.join(page)))

    def test_deeply_nested_values_are_refused(self):
        for page in ('[' * 10_000, '- ' * 10_000, '{a: ' * 10_000):
            self.assertIn('deeper than 24', self.said(page))

    def test_values_nested_deeply_through_aliases_are_refused(self):
        page = ['a0: &a0 [[[x]]]'] + [f'a{n}: &a{n} [[[*a{n - 1}]]]' for n in range(1, 1000)]
        self.assertIn('deeper than 24', self.said('\n'.join(page)))

    def test_many_documents_are_refused(self):
        self.assertIn('more than 1000 documents', self.said('---\n' * 100_000))

    def test_a_recursive_anchor_is_refused(self):
        said = [one.message for one in problems('cluster: a\ntemplate: b\nparameters: &x {y: *x}')]
        self.assertEqual(
            ['the anchor &x is not defined above'], [one.partition(';')[0] for one in said]
        )
