"""Directives that make reference pages out of kiln's own classes and options."""

import re
from collections.abc import Iterator

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from kiln import exceptions
from kiln.compute_drivers.calls import Call
from kiln.conf import opts


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
    """Each error, what it says, and what to do."""

    def lines(self) -> Iterator[str]:
        for error in (exceptions.KilnError, *_descendants(exceptions.KilnError)):
            parents = ', '.join(base.__name__ for base in error.__bases__)
            yield error.__name__
            yield '~' * len(error.__name__)
            yield ''
            yield (error.__doc__ or '').split('\n\n')[0].replace('\n', ' ')
            yield ''
            yield f'*To do:* {error.remedy}'
            yield ''
            facts = f'code ``{error.code}``; a {parents}'
            if issubclass(error, exceptions.AmphoraComputeError):
                facts += (
                    f'; {"retryable" if error.retryable else "not retryable"}; '
                    f'outcome {error.outcome.value}; to the circuit: {error.circuit.value}'
                )
            yield f'{facts}.'
            yield ''


class Calls(Generated):
    """The calls of the contract, as the wrappers see them."""

    def lines(self) -> Iterator[str]:
        yield '.. list-table::'
        yield '   :header-rows: 1'
        yield ''
        rows = [('call', 'hook', 'traffic', 'may be repeated', 'ability')]
        rows += [
            (c.label, f'``{c.hook}``', c.traffic.value, 'yes' if c.repeatable else 'no',
             c.ability.value if c.ability else 'required')
            for c in Call
        ]  # fmt: skip
        for row in rows:
            for i, cell in enumerate(row):
                yield f'   {"* -" if i == 0 else "  -"} {cell}'
        yield ''


class Options(Generated):
    """Every option of kiln.conf."""

    def lines(self) -> Iterator[str]:
        for group, options in opts.list_opts():
            title = f'[{getattr(group, "name", group)}]'
            yield title
            yield '~' * len(title)
            yield ''
            yield getattr(group, 'help', '') or ''
            yield ''
            for opt in options:
                default = (
                    '' if opt.default in (None, '', [], {}) else f' (default ``{opt.default}``)'
                )
                yield f'``{opt.dest}``{default}'
                yield '    ' + re.sub(r'([*`|\\])', r'\\\1', opt.help)
                yield ''


def _descendants(error: type) -> Iterator[type]:
    for child in error.__subclasses__():
        if child.__module__ == exceptions.__name__:
            yield child
            yield from _descendants(child)


def setup(app):
    """Register the directives."""
    app.add_directive('kiln-errors', Errors)
    app.add_directive('kiln-calls', Calls)
    app.add_directive('kiln-options', Options)
    return {'parallel_read_safe': True}
