"""The command that teaches shells to complete the others."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kiln.cli.base import KilnCommand
from kiln.cli.command_tree import NAMES, command_tree
from kiln.cli.exit_codes import UsageError
from kiln.cli.shell_scripts import SCRIPTS
from kiln.cli.stores import existing_store

if TYPE_CHECKING:
    from kiln.db.store import Store


class Completion(KilnCommand):
    """Print the script by which a shell completes commands, options and names.

    bash: kiln completion bash > /etc/bash_completion.d/kiln. zsh: source the output in
    .zshrc. fish: kiln completion fish > ~/.config/fish/completions/kiln.fish.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add('shell', nargs='?', choices=tuple(SCRIPTS), help='Shell that the script is for.')
        # What the scripts ask with.
        add('--names', choices=(*NAMES, 'size'), help=argparse.SUPPRESS)
        add('--of', metavar='CLUSTER', help=argparse.SUPPRESS)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the script, or names that there are."""
        write = self.app.stdout.write
        if parsed_args.names:
            for name in self._names(parsed_args.names, parsed_args.of):
                write(f'{name}\n')
        elif parsed_args.shell:
            write(SCRIPTS[parsed_args.shell](command_tree(self.app.parser, self._parsers())))
        else:
            raise UsageError(f'Name the shell: one of {", ".join(SCRIPTS)}.')

    def _parsers(self) -> dict[str, argparse.ArgumentParser]:
        table: dict[str, Any] = self.app.command_manager.commands
        return {
            name: entry.load()(self.app, None).get_parser(f'kiln {name}')
            for name, entry in table.items()
            if name != 'help'
        }

    def _names(self, kind: str, cluster: str | None) -> Iterable[str]:
        if kind == 'backend':
            return sorted(self.app.backends.backends())
        with existing_store(self.app.settings) as store:
            return () if store is None else _names_in(store, kind, cluster)


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
