"""Directives that make reference pages out of kiln's own classes, options and commands."""

import argparse
import inspect
import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import driver_matrix
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from kiln import exceptions
from kiln.cli.app import KilnApp
from kiln.cli.commands import CommandTable
from kiln.cli.exit_codes import CODES, ExitCode
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.values import Cap
from kiln.cluster_file.fields import RECORDS, json_schema
from kiln.compute.facade import Compute
from kiln.compute_drivers.calls import Call
from kiln.conf import opts
from kiln.images.recipe_fields import RECIPE
from kiln.models import Ability
from kiln.testing.mutants.operators import CLUSTER_OPERATORS, OPERATORS
from kiln.testing.mutants.texts import TEXT_OPERATORS
from kiln.wrappers.operations.operation import Operation
from tools import contract_table

EXAMPLES = pathlib.Path(__file__).parents[1] / 'examples'
#: A signature longer than this has a line for each argument.
LINE = 90


class Generated(Directive):
    """A directive whose content is made here, in reStructuredText."""

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(StringList(list(self.lines()), 'generated'), 0, section, True)
        return section.children


class Errors(Generated):
    """All errors in one table, and then each with what to do."""

    def lines(self) -> Iterator[str]:
        errors = [exceptions.KilnError, *_descendants(exceptions.KilnError)]
        rows = [('error', 'code', 'when', 'advice', 'retryable', 'outcome', 'circuit')]
        for error in errors:
            left, circuit = getattr(error, 'outcome', None), getattr(error, 'circuit', None)
            rows.append((
                f'``{error.__name__}``', f'``{error.code}``', _when(error), error.advice.value,
                'yes' if error.retryable else 'no',
                left.value if left else '', circuit.value if circuit else '',
            ))  # fmt: skip
        yield from _table(rows)
        for error in errors:
            yield from _heading(error.__name__)
            yield _when(error)
            yield ''
            yield f'*To do:* {error.remedy}'
            yield ''
            parents = ' and '.join(base.__name__ for base in error.__bases__)
            yield f'Derived from {parents}.'
            yield ''


class MutationOperators(Generated):
    """The mistakes of which ``kiln driver mutate`` makes mutants."""

    def lines(self) -> Iterator[str]:
        rows = [('operator', 'mistake')]
        for name, operator in {**OPERATORS, **CLUSTER_OPERATORS, **TEXT_OPERATORS}.items():
            rows.append((f'``{name}``', inspect.cleandoc(operator.__doc__ or '')))
        yield from _table(rows)


class Face(Generated):
    """What a caller may use of a class: each member, what it says, and an example."""

    cls: type
    examples: pathlib.Path

    def lines(self) -> Iterator[str]:
        yield from inspect.cleandoc(self.cls.__doc__ or '').splitlines()
        yield ''
        for name, member in public_members(self.cls):
            yield from _heading(name)
            if not isinstance(member, property):
                yield from ('.. code-block:: python', '', *_indented(_signature(name, member)), '')
            yield from inspect.cleandoc(member.__doc__ or '').splitlines()
            program = self.examples / f'{name}.py'
            if program.exists():
                yield from ('', '.. code-block:: python', '', *_indented(program.read_text()))
            yield ''


class ComputeFace(Face):
    """What a controller holds."""

    cls = Compute
    examples = EXAMPLES / 'compute'


class OperationFace(Face):
    """What each call of it returns."""

    cls = Operation
    examples = EXAMPLES / 'operation'


class AdviceTable(Generated):
    """Each advice that an error may give, and what it means."""

    def lines(self) -> Iterator[str]:
        rows = [('advice', 'what to do')]
        rows += [(f'``{advice.value}``', words) for advice, words in _advised().items()]
        yield from _table(rows)


class Calls(Generated):
    """The calls of the contract, as the wrappers see them."""

    def lines(self) -> Iterator[str]:
        rows = [('call', 'hook', 'traffic', 'may be repeated', 'ability')]
        rows += [
            (c.label, f'``{c.hook}``', c.traffic.value, 'yes' if c.repeatable else 'no',
             c.ability.value if c.ability else 'required')
            for c in Call
        ]  # fmt: skip
        yield from _table(rows)


class Contract(Generated):
    """Each sentence of the compute contract, and what the conformance kit has for it."""

    def lines(self) -> Iterator[str]:
        rows = contract_table.table()
        for place, said in itertools.groupby(rows, key=lambda row: row.place):
            yield from (f'**{_plain(place)}**', '')
            yield from _table([('sentence', 'behaviours', 'wrong drivers'), *map(_said, said)])


class ComputeDrivers(Generated):
    """Abilities and limits of the compute drivers in tree, a column for each driver."""

    def lines(self) -> Iterator[str]:
        drivers = driver_matrix.compute_drivers()
        rows = [('ability or limit', *(one.name for one in drivers))]
        for ability in Ability:
            rows.append((f'``{ability.value}``', *(_ability(one, ability) for one in drivers)))
        for name in drivers[0].limits:
            rows.append((f'``{name}``', *(_limit(one.limits[name]) for one in drivers)))
        yield from _table(rows)


class ClusterDrivers(Generated):
    """Types of cluster, capabilities and verbs of the cluster drivers in tree."""

    def lines(self) -> Iterator[str]:
        drivers = driver_matrix.cluster_drivers()
        rows = [('capability', *drivers)]
        provided = (from_class(one).provides or () for one in drivers.values())
        rows.append(('provides', *(_plain(', '.join(map(str, one))) for one in provided)))
        for cap in Cap:
            able = (cap in one.capabilities for one in drivers.values())
            rows.append((f'``{cap.value}``', *('yes' if one else 'no' for one in able)))
        rows.append(('verbs', *(_names(one.verbs) or 'none' for one in drivers.values())))
        yield from _table(rows)


class Options(Generated):
    """Every option of kiln.conf."""

    def lines(self) -> Iterator[str]:
        for group, options in opts.list_opts():
            yield from _heading(f'[{getattr(group, "name", group)}]')
            yield getattr(group, 'help', '') or ''
            yield ''
            for opt in options:
                yield f'``{opt.dest}`` ({_facts(opt)})'
                yield f'    {_plain(opt.help)}'
                yield ''


class Commands(Generated):
    """Every command of ``kiln``, as its own parser describes it."""

    def lines(self) -> Iterator[str]:
        app = KilnApp()
        yield from _heading('Global options')
        yield from _options(app.parser)
        table = CommandTable()
        described = set()
        for name in sorted(table.commands):
            command, _, _ = table.find_command(name.split())
            # cliff brings some of its own, which its own guide explains.
            if not command.__module__.startswith('kiln.'):
                continue
            yield from _heading(f'kiln {name}')
            parser = command(app, None).get_parser(f'kiln {name}')
            yield f'.. program:: kiln {name}'
            yield ''
            yield _plain(parser.description)
            yield ''
            yield from _options(parser)
            described |= set(_formatters(parser))
        yield from _heading('How tables are printed')
        yield 'Commands that print a table or the fields of one thing take these as well.'
        yield ''
        for text in sorted(described):
            yield from text.splitlines()
            yield ''


class ExitCodes(Generated):
    """Which errors give which exit code."""

    def lines(self) -> Iterator[str]:
        rows = [('code', 'errors, and those derived from them')]
        for code in ExitCode:
            names = [error.__name__ for error, its in CODES.items() if its is code]
            if names:
                rows.append((str(code.value), ', '.join(f'``{name}``' for name in names)))
        yield from _table(rows)


class ClusterFile(Generated):
    """Every key of the file that declares a cluster."""

    records = RECORDS

    def lines(self) -> Iterator[str]:
        for record in self.records:
            yield from _heading(record.title[0].upper() + record.title[1:])
            for field in record.fields.values():
                facts = [_plain(field.kind.words)]
                if field.required:
                    facts.append('required')
                if (default := record.written_default(field)) is not None:
                    text = ', '.join(default) if isinstance(default, list) else default
                    facts.append(f'default ``{text}``')
                yield f'``{field.name}`` ({"; ".join(facts)})'
                yield f'    {_plain(field.help)}'
                yield ''


class ImageFile(ClusterFile):
    """Every key of the file that a recipe of an image is."""

    records = (RECIPE,)


def _ability(driver: driver_matrix.ComputeDriver, ability: Ability) -> str:
    if ability in driver.conditional:
        return 'by configuration'
    return 'yes' if ability in driver.abilities else 'no'


def _limit(limit: driver_matrix.Limit) -> str:
    """Return how a limit is written in a cell."""
    if not limit.values:
        return 'by configuration'
    if not isinstance(limit.values[0], frozenset):
        return ' or '.join(map(str, limit.values))
    text = _names(limit.always) or 'none'
    return f'{text}; by configuration also {_names(limit.sometimes)}' if limit.sometimes else text


def _names(values: Iterable[str]) -> str:
    return ', '.join(f'``{value}``' for value in sorted(map(str, values)))


def public_members(cls: type) -> list[tuple[str, Any]]:
    """Return what a caller may use of a class, by name: methods and properties."""
    return [
        (name, member)
        for name, member in inspect.getmembers(cls)
        if not name.startswith('_') and (callable(member) or isinstance(member, property))
    ]


def _signature(name: str, method: Callable[..., Any]) -> str:
    """Return how a method is written, a line for each argument where they are many."""
    signature = inspect.signature(method)
    _, *own = signature.parameters.values()
    whole = signature.replace(parameters=own)
    # The annotations are text, as nothing is evaluated before it is needed.
    text = f'{name}{whole}'.replace("'", '')
    if len(text) <= LINE:
        return text
    lines, keyword_only = [f'{name}('], False
    for one in own:
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            lines.append('    *,')
            keyword_only = True
        lines.append(f'    {one},'.replace("'", ''))
    return '\n'.join([*lines, f') -> {signature.return_annotation}'])


def _indented(text: str) -> list[str]:
    return [f'   {line}' for line in text.splitlines()]


def _heading(title: str) -> Iterator[str]:
    yield from (title, '~' * len(title), '')


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield from ('.. list-table::', '   :header-rows: 1', '   :widths: auto', '')
    for row in rows:
        for i, cell in enumerate(row):
            yield f'   {"* -" if i == 0 else "  -"} {cell}'
    yield ''


def _said(row: contract_table.Row) -> tuple[str, ...]:
    """Return the cells of a sentence of the contract."""
    sentence = re.sub('^:raises ([^:]*):', r'Raises \1:', row.sentence).removesuffix('::')
    if row.reason:
        return sentence, f'*No claim on a driver: {_plain(row.reason)}.*', ''
    shown = (name.removeprefix('test_').replace('_', ' ') for name in row.behaviours)
    return sentence, '; '.join(shown), ', '.join(row.wrong_drivers)


def _plain(text: str) -> str:
    """Return a text of a command or an option with nothing that Sphinx would read."""
    return re.sub(r'([*`|\\_])', r'\\\1', ' '.join(text.split()))


def _facts(opt) -> str:
    """Return what an option takes, and what it is where it is not set."""
    facts = [str(getattr(opt.type, 'type_name', 'value')).removesuffix(' value')]
    for word, bound in (('from', 'min'), ('to', 'max')):
        limit = getattr(opt.type, bound, None)
        if limit is not None:
            facts.append(f'{word} {limit:g}')
    if opt.secret:
        facts.append('secret')
    unset = opt.default is None or opt.default in ('', [], {})
    default = ', '.join(opt.default) if isinstance(opt.default, list) else opt.default
    facts.append('unset by default' if unset else f'default ``{default}``')
    return ', '.join(facts)


def _is_formatter(group: argparse._ArgumentGroup) -> bool:
    return (group.title or '').lower().endswith(('formatter', 'formatters'))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:
        if not _is_formatter(group):
            for action in group._group_actions:
                yield from _option(action)


def _formatters(parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:
        if _is_formatter(group):
            for action in group._group_actions:
                yield '\n'.join(_option(action))


def _option(action: argparse.Action) -> Iterator[str]:
    if '--help' in action.option_strings or action.help == argparse.SUPPRESS:
        return
    value = action.metavar or (
        '{' + ','.join(map(str, action.choices)) + '}' if action.choices else action.dest.upper()
    )
    names = [name if action.nargs == 0 else f'{name} {value}' for name in action.option_strings]
    yield f'``{", ".join(names) or value}``'
    yield f'    {_plain(action.help or "")}'
    yield ''


def _descendants(error: type) -> list[type]:
    found = []
    for child in error.__subclasses__():
        if getattr(exceptions, child.__name__, None) is child:
            found += [child, *_descendants(child)]
    # One that has two parents is below each of them.
    return list(dict.fromkeys(found))


def _when(error: type) -> str:
    return (error.__doc__ or '').split('\n\n')[0].replace('\n', ' ')


def _advised() -> dict[exceptions.Advice, str]:
    """Return what the comment above each advice says."""
    words: dict[exceptions.Advice, str] = {}
    above: list[str] = []
    for line in inspect.getsource(exceptions.Advice).splitlines():
        line = line.strip()
        if line.startswith('#: '):
            above.append(line.removeprefix('#: '))
        elif above:
            name = line.partition(' = ')[0]
            words[exceptions.Advice[name]] = ' '.join(above)
            above = []
    return words


def publish_schema(app, error):
    """Put the JSON schema of the cluster file beside the pages."""
    if error is None and app.builder.format == 'html':
        schema = json.dumps(json_schema(), indent=2) + '\n'
        pathlib.Path(app.outdir, 'cluster.schema.json').write_text(schema)


def setup(app):
    """Register the directives."""
    app.add_directive('kiln-errors', Errors)
    app.add_directive('kiln-advice', AdviceTable)
    app.add_directive('kiln-calls', Calls)
    app.add_directive('kiln-contract', Contract)
    app.add_directive('kiln-compute-drivers', ComputeDrivers)
    app.add_directive('kiln-cluster-drivers', ClusterDrivers)
    app.add_directive('kiln-compute', ComputeFace)
    app.add_directive('kiln-operation', OperationFace)
    app.add_directive('kiln-options', Options)
    app.add_directive('kiln-commands', Commands)
    app.add_directive('kiln-exit-codes', ExitCodes)
    app.add_directive('kiln-mutation-operators', MutationOperators)
    app.add_directive('kiln-cluster-file', ClusterFile)
    app.add_directive('kiln-image-file', ImageFile)
    app.connect('build-finished', publish_schema)
    return {'parallel_read_safe': True}
