"""Each operator makes its mistake in small sources, and leaves everything else alone."""

import textwrap
import unittest

from kiln.testing.mutants.mutants import mutants_of
from kiln.testing.mutants.operators import OPERATORS

#: An operator, a source, and what each of its mutants has instead of a line.
MADE = (
    (
        'drop_field', 'x = amphora(id=one, name=two)',
        ['x = amphora(name=two)', 'x = amphora(id=one)'],
    ),
    ('drop_field', 'x = amphora(one, id=two,)', ['x = amphora(one,)']),
    ('drop_field', 'x = amphora(id=two,)', ['x = amphora()']),
    ('drop_field', "x = {'on': A, 'off': B}", ["x = {'off': B}", "x = {'on': A}"]),
    (
        'drop_error_fact', 'raise Gone(text, amphora_id=one)', ['raise Gone(text)'],
    ),
    ('swap_fields', 'x = amphora(id=one, name=two)', ['x = amphora(id=two, name=one)']),
    ('swap_fields', 'x = amphora(id=one, name=one)', []),
    (
        'ignore_request',
        'def f(request: BuildRequest): x = request.port_ids, request.flavor, request.name',
        [
            'def f(request: BuildRequest): x = (), request.flavor, request.name',
            'def f(request: BuildRequest): x = request.port_ids, None, request.name',
            "def f(request: BuildRequest): x = request.port_ids, request.flavor, ''",
        ],
    ),
    ('ignore_request', 'def f(request: Request): x = request.flavor', []),
    (
        'damage_text',
        'def f(request: BuildRequest): x = request.name, request.flavor',
        [
            'def f(request: BuildRequest): x = request.name.lower(), request.flavor',
            "def f(request: BuildRequest): x = request.name.encode('ascii', 'ignore').decode(),"
            ' request.flavor',
        ],
    ),
    ('wrong_member', 'x = State.DELETED', ['x = State.UNKNOWN']),
    ('wrong_member', 'x: State.DELETED = y', []),
    ('off_by_one', 'x = page[:20]', ['x = page[:21]']),
    ('off_by_one', 'x = a <= b', ['x = a < b']),
    ('off_by_one', 'x = True', []),
    (
        'widen_query',
        "x = 'SELECT * FROM machines WHERE owner = ? AND id = ?'",
        [
            "x = 'SELECT * FROM machines WHERE (owner = ? OR 1) AND id = ?'",
            "x = 'SELECT * FROM machines WHERE owner = ? AND (id = ? OR 1)'",
        ],
    ),
    (
        'widen_query',
        "x = f'UPDATE t SET state = ? WHERE {key} = 1 AND id = ?'",
        ["x = f'UPDATE t SET state = ? WHERE {key} = 1 AND (id = ? OR 1)'"],
    ),
    ('reverse_query', "x = 'ORDER BY number'", ["x = 'ORDER BY number DESC'"]),
    ('widen_filter', 'x = [a for a in b if a.owner == c]', ['x = [a for a in b if True]']),
    ('widen_filter', 'x = a and (b or c)', ['x = (b or c)', 'x = (a)']),
    (
        'widen_filter',
        'x = (a.owner, a.key) == (owner, key)',
        ['x = (a.key,) == (key,)', 'x = (a.owner,) == (owner,)'],
    ),
    ('narrow_filter', 'x = a or b', ['x = (b)', 'x = (a)']),
    ('negate_condition', 'x = a if b else c', ['x = a if not (b) else c']),
    ('negate_condition', 'def f(): return not a', ['def f(): return bool(a)']),
    ('negate_condition', 'x = f(hard=a is b)', ['x = f(hard=not (a is b))']),
    ('negate_condition', 'def f(): return -1', []),
    ('always', 'x = a if b else c', ['x = a if True else c']),
    ('never', 'x = a if b else c', ['x = a if False else c']),
    ('never', 'x = a if (b := c) else b', []),
    ('drop_validation', 'check_size(files)', ['pass']),
    ('drop_validation', 'self._check_size(files)', ['pass']),
    ('swallow_error', 'def f(): raise Gone', ['def f(): return None']),
    ('drop_cause', 'raise Gone from exc', ['raise Gone from None']),
    ('drop_cause', 'raise Gone from None', []),
    ('drop_call', 'ports.release(one)', ['pass']),
    ('drop_call', 'LOG.warning(one)', []),
    ('drop_call', 'check_size(files)', []),
    ('drop_call', 'x = one()', []),
    ('drop_write', 'self.known[one] = two', ['pass']),
    ('drop_write', 'del known[one]', ['pass']),
    ('drop_write', 'one = two', []),
    ('skip_last', 'x = [a for a in pages()]', ['x = [a for a in list(pages())[:-1]]']),
    ('reverse_order', 'x = [a for a in pages()]', ['x = [a for a in list(pages())[::-1]]']),
    ('reverse_order', 'x = {a for a in b}', []),
    ('reverse_order', 'x = any(a for a in b)', []),
    ('reverse_order', 'x = sorted(names, key=one)', ['x = list(names)']),
)  # fmt: skip
#: Operators that work on statements: the source, and what a mutant adds or has instead.
BLOCKS = (
    (
        'drop_validation',
        """
        if too_many:
            raise Refused
        """,
        ['if False:'],
    ),
    (
        'negate_condition',
        """
        if too_many:
            raise Refused
        """,
        [],
    ),
    (
        'never',
        """
        if suspended:
            resume()
        """,
        ['if False:'],
    ),
    (
        'always',
        """
        if suspended:
            resume()
        """,
        ['if True:'],
    ),
    (
        'forget_error',
        """
        try:
            look()
        except (Gone, Lost):
            pass
        """,
        ['except ():', 'except (Lost):', 'except (Gone):'],
    ),
    (
        'catch_everything',
        """
        try:
            look()
        except Gone:
            pass
        """,
        ['except Exception:'],
    ),
    (
        'change_error',
        """
        def look():
            raise QuotaExceeded('full')
        """,
        [
            "    raise __import__('kiln.exceptions').exceptions.AmphoraBuildError('full')",
            "    raise __import__('kiln.exceptions').exceptions.ServiceUnavailable('full')",
        ],
    ),
    (
        'change_error',
        """
        try:
            look()
        except QuotaExceeded:
            pass
        """,
        [],
    ),
    (
        'forget_lock',
        """
        with self._lock:
            look()
        """,
        ["with __import__('contextlib').nullcontext():"],
    ),
    (
        'forget_context',
        """
        with backend_errors('look'):
            look()
        """,
        ["with __import__('contextlib').nullcontext():"],
    ),
    (
        'return_early',
        '''
        def look(self) -> Iterable[str]:
            """Look."""
            return self.seen
        ''',
        ['    return ()'],
    ),
    (
        'return_early',
        """
        def look(self) -> str | None:
            return self.seen
        """,
        ['    return None'],
    ),
    (
        'ignore_argument',
        """
        def look(self, at: str, hard: bool, lines: int = 3, now: float | None = None):
            return at, hard, lines
        """,
        ['    hard = False', '    lines = 3'],
    ),
    (
        'cache_in_memory',
        """
        class Driver:
            def look(self):
                return self.seen

            def act(self):
                self.seen = 1

            @property
            def known(self):
                return 1
        """,
        ["    @__import__('functools').cache"],
    ),
    (
        'stop_paging',
        """
        for page in pages:
            for one in page:
                yield one
        """,
        ['    break', '        break'],
    ),
)


def changed(operator, source):
    """Return the lines that mutants have and the source has not."""
    mutants = mutants_of('acme', source, [operator])
    return [
        line
        for mutant in mutants
        for line in mutant.source.splitlines()
        if line not in source.splitlines()
    ]


class OperatorsTest(unittest.TestCase):
    def test_an_operator_makes_its_mistake_at_each_place(self):
        for operator, source, expected in MADE:
            with self.subTest(operator, source=source):
                self.assertCountEqual(expected, changed(operator, f'{source}\n'))

    def test_an_operator_changes_a_line_of_a_statement(self):
        for operator, block, expected in BLOCKS:
            with self.subTest(operator, source=block):
                self.assertCountEqual(expected, changed(operator, textwrap.dedent(block).lstrip()))

    def test_every_operator_is_shown_here_and_described(self):
        self.assertEqual(set(OPERATORS), {name for name, *_ in (*MADE, *BLOCKS)})
        for name, operator in OPERATORS.items():
            self.assertRegex(operator.__doc__, r'^[A-Z].*\.$', name)

    def test_text_for_people_logs_annotations_and_declarations_are_left_alone(self):
        source = textwrap.dedent('''
            """Makes 3 things."""
            if TYPE_CHECKING:
                limit = 3
            T = TypeVar('T', bound=3)
            __all__ = ['look', 3]
            @cache(size=3)
            def look(one: Literal[3]) -> Literal[3]:
                LOG.info('%s', 3)
                assert one == 3
                text = f'{one + 3} of {sorted(one)}'
            ''')
        found = [one.operator for one in mutants_of('acme', source)]
        self.assertEqual(['return_early'], found)
