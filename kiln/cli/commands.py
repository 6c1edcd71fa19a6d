"""Table of commands and their classes; a class is imported when its command runs."""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint

from cliff.command import Command
from cliff.commandmanager import CommandManager

from kiln.cli.exit_codes import UsageError

_HOMES = {
    'up': 'cluster.up:Up',
    'plan': 'cluster.up:Plan',
    'why': 'cluster.show:Why',
    'schema': 'cluster.template:Schema',
    'cluster list': 'cluster.show:List',
    'cluster show': 'cluster.show:Show',
    'cluster why': 'cluster.show:Why',
    'cluster events': 'cluster.show:Events',
    'cluster receipt': 'cluster.show:Receipt',
    'cluster watch': 'cluster.show:Watch',
    'cluster scale': 'cluster.act:Scale',
    'cluster upgrade': 'cluster.act:Upgrade',
    'cluster reboot': 'cluster.act:Reboot',
    'cluster rebuild': 'cluster.act:Rebuild',
    'cluster adopt': 'cluster.act:Adopt',
    'cluster check': 'cluster.act:Check',
    'cluster rollback': 'cluster.act:Rollback',
    'cluster migrate-driver': 'cluster.act:MoveDriver',
    'cluster pause': 'cluster.act:Pause',
    'cluster resume': 'cluster.act:Resume',
    'cluster retry': 'cluster.act:Retry',
    'cluster cancel': 'cluster.act:Cancel',
    'cluster delete': 'cluster.act:Delete',
    'node list': 'cluster.node:List',
    'node show': 'cluster.node:Show',
    'node console': 'cluster.node:Console',
    'node remove': 'cluster.node:Remove',
    'node replace': 'cluster.node:Replace',
    'node reboot': 'cluster.node:Reboot',
    'template list': 'cluster.template:List',
    'template show': 'cluster.template:Show',
    'template save': 'cluster.template:Save',
    'template remove': 'cluster.template:Remove',
    'compute build': 'compute.build:Build',
    'compute list': 'compute.show:List',
    'compute show': 'compute.show:Show',
    'compute status': 'compute.show:Status',
    'compute console': 'compute.show:Console',
    'compute check': 'compute.show:Check',
    'compute watch': 'compute.watch:Watch',
    'compute suspend': 'compute.act:Suspend',
    'compute resume': 'compute.act:Resume',
    'compute reboot': 'compute.act:Reboot',
    'compute rebuild': 'compute.act:Rebuild',
    'compute delete': 'compute.act:Delete',
    'compute orphans': 'compute.orphans:Orphans',
    'orphans': 'compute.orphans:Orphans',
    'driver list': 'driver.show:List',
    'driver show': 'driver.show:Show',
    'driver doc': 'driver.show:Doc',
    'driver new': 'driver.new:New',
    'driver fork': 'driver.new:Fork',
    'driver lint': 'driver.check:Lint',
    'driver check': 'driver.check:Check',
    'driver explain': 'driver.check:Explain',
    'driver test': 'driver.test:Test',
    'circuit list': 'compute.circuit:List',
    'circuit open': 'compute.circuit:Open',
    'circuit close': 'compute.circuit:Close',
    'appliance list': 'compute.appliance:List',
    'appliance maintain': 'compute.appliance:Maintain',
    'appliance return': 'compute.appliance:Return',
    'appliance release': 'compute.appliance:Release',
    'conductor': 'site.conductor:Conduct',
    'hook list': 'site.hook:List',
    'hook skip': 'site.hook:Skip',
    'hook test': 'site.hook:Test',
    'image build': 'image.commands:Build',
    'image list': 'image.commands:List',
    'image show': 'image.commands:Show',
    'image remove': 'image.commands:Remove',
    'image prune': 'image.commands:Prune',
    'db upgrade': 'site.db:Upgrade',
    'db check': 'site.db:Check',
    'db purge': 'site.db:Purge',
    'db rotate-key': 'site.db:RotateKey',
    'completion': 'completion.completion:Completion',
    'x': 'cluster.verb:Run',
    'demo': 'demo:Demo',
}


class NoSuchCommand(UsageError, ValueError):
    """The words are not a command; a ValueError because cliff expects one."""

    remedy = "'kiln --help' lists all commands."


class CommandTable(CommandManager):
    """The commands of kiln, as entry points without registration by a package."""

    def __init__(self) -> None:
        super().__init__()
        for name, home in _HOMES.items():
            self.commands[name] = EntryPoint(name, f'kiln.cli.{home}', 'kiln.cli')

    def find_command(self, argv: list[str]) -> tuple[type[Command], str, list[str]]:
        """Return the class, the name and the arguments of a command.

        :raises NoSuchCommand: not found; the message names similar commands.
        """
        try:
            found: tuple[type[Command], str, list[str]] = super().find_command(argv)
        except ValueError:
            if argv[0].startswith('-'):
                raise NoSuchCommand(
                    f'Cannot use option {argv[0]!r} here: it is not a global option. Write '
                    f'options of a command after the command.'
                ) from None
            words = ' '.join(argv[: self._get_last_possible_command_index(argv)])
            raise NoSuchCommand(self._advice(words)) from None
        return found

    def _advice(self, words: str) -> str:
        group = f'{words} '
        if members := [name for name in self.commands if name.startswith(group)]:
            choice = ', '.join(name.removeprefix(group) for name in members)
            return f"Cannot run 'kiln {words}' alone: add one of {choice}."
        near = difflib.get_close_matches(words, self.commands, n=3)
        hint = f'; did you mean {" or ".join(map(repr, near))}?' if near else '.'
        return f'Cannot find a command {words!r}{hint}'
