"""Shell completion: the script for the shell, and its completions."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import argcomplete
from argcomplete.completers import DirectoriesCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from kiln.cli.arguments import argument
from kiln.cli.base import KilnCommand
from kiln.cli.exit_codes import UsageError
from kiln.exceptions import KilnError

if TYPE_CHECKING:
    from kiln.cli.app import KilnApp
    from kiln.db.store import Store

_SHELLS = ('bash', 'zsh', 'fish')
#: Initializes completion in zsh where .zshrc does not.
_COMPINIT = '(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u }'
#: Arguments for paths are recognized by metavar, arguments for objects by destination.
_FILES = FilesCompleter()
_PATHS = {'FILE': _FILES, 'FILE|NAME': _FILES, 'PATH': _FILES, 'DIR': DirectoriesCompleter()}
_OBJECTS = {name: name for name in ('backend', 'template', 'cluster', 'group', 'node', 'size')}
_OBJECTS |= {'nodes': 'node', 'remove': 'node'}


class Completion(KilnCommand):
    """Print a script with which a shell completes commands, options and names.

    bash: kiln completion bash > /etc/bash_completion.d/kiln. zsh: source the output in
    .zshrc. fish: kiln completion fish > ~/.config/fish/completions/kiln.fish.
    """

    arguments = (
        argument('shell', nargs='?', choices=_SHELLS, help='Shell to print the script for.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        shell = parsed_args.shell
        if shell is None:
            raise UsageError(f'Name the shell: one of {", ".join(_SHELLS)}.')
        script = shellcode(['kiln'], shell=shell, complete_arguments=('-o', 'nospace'))
        if shell == 'zsh':
            # zsh reads the first line of a script on fpath, so it must stay first.
            script = script.replace('\n', f'\n{_COMPINIT}\n', 1)
        self.write(script)


def answer(app: KilnApp) -> None:
    """Write the completions of the line that the script put into the environment; exit."""
    parser = parser_of_line(app, os.environ['COMP_LINE'])
    argcomplete.autocomplete(parser, always_complete_options=False)


def parser_of_line(app: KilnApp, line: str) -> argparse.ArgumentParser:
    """Return the parser of kiln; load only the commands that the line can mean."""
    _complete_values(app, app.parser)
    commands = dict(app.command_manager.commands)
    del commands['help']
    named = {name.split()[0] for name in commands} & set(line.split())
    groups = {'': app.parser.add_subparsers()}
    for name, entry in commands.items():
        group, _, word = name.rpartition(' ')
        if group not in groups:
            groups[group] = groups[''].add_parser(group).add_subparsers()
        needed = name.split()[0] in named if named else not group
        if needed:
            parser = entry.load()(app, None).get_parser(f'kiln {name}')
            _complete_values(app, parser)
            summary = ' '.join((parser.description or '').split('\n\n')[0].split())
            groups[group].add_parser(
                word, help=summary.replace('%', '%%'), parents=[parser], add_help=False
            )
        elif not group:
            groups[group].add_parser(word)
    return app.parser


def _complete_values(app: KilnApp, parser: argparse.ArgumentParser) -> None:
    names = functools.partial(_names, app)
    for action in parser._actions:
        if action.choices is None:
            completer = _PATHS.get(str(action.metavar), names)
            action.completer = completer  # type: ignore[attr-defined]


def _names(
    app: KilnApp, *, action: argparse.Action, parsed_args: argparse.Namespace, **_: Any
) -> Iterable[str]:
    kind = _OBJECTS.get(action.dest)
    if kind is None:
        return ()
    # Imported late: commands and options are completed without the configuration.
    from kiln.cli.site.stores import existing_store

    app.options = parsed_args
    try:
        if kind == 'backend':
            return sorted(app.backends.backends())
        with existing_store(app.settings) as store:
            cluster = getattr(parsed_args, 'cluster', None)
            return () if store is None else _names_in(store, kind, cluster)
    # A completion shows no errors.
    except KilnError:
        return ()


def _names_in(store: Store, kind: str, cluster: str | None) -> list[str]:
    if kind == 'template':
        return [one.name for one in store.templates.list()]
    if kind == 'cluster' or cluster is None:
        return [one.name for one in store.clusters.list()]
    there = store.clusters.get(cluster)
    if kind == 'node':
        return [one.name for one in store.nodes.of(there.id) if one.state.value != 'gone']
    sign = '=' if kind == 'size' else ''
    return [f'{group.name}{sign}' for group in there.spec.groups]
