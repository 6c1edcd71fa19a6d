"""Table of commands and their classes; a class is imported when its command runs."""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint

from cliff.command import Command
from cliff.commandmanager import CommandManager

from kiln.cli.exit_codes import UsageError

_HOMES = {
    'up': 'up:Up',
    'plan': 'up:Plan',
    'why': 'cluster_look:Why',
    'schema': 'template:Schema',
    'cluster list': 'cluster_look:List',
    'cluster show': 'cluster_look:Show',
    'cluster why': 'cluster_look:Why',
    'cluster events': 'cluster_look:Events',
    'cluster receipt': 'cluster_look:Receipt',
    'cluster watch': 'cluster_look:Watch',
    'cluster scale': 'cluster_acts:Scale',
    'cluster upgrade': 'cluster_acts:Upgrade',
    'cluster reboot': 'cluster_acts:Reboot',
    'cluster rebuild': 'cluster_acts:Rebuild',
    'cluster adopt': 'cluster_acts:Adopt',
    'cluster check': 'cluster_acts:Check',
    'cluster rollback': 'cluster_acts:Rollback',
    'cluster migrate-driver': 'cluster_acts:MoveDriver',
    'cluster pause': 'cluster_acts:Pause',
    'cluster resume': 'cluster_acts:Resume',
    'cluster retry': 'cluster_acts:Retry',
    'cluster cancel': 'cluster_acts:Cancel',
    'cluster delete': 'cluster_acts:Delete',
    'node list': 'node:List',
    'node show': 'node:Show',
    'node console': 'node:Console',
    'node remove': 'node:Remove',
    'node replace': 'node:Replace',
    'node reboot': 'node:Reboot',
    'template list': 'template:List',
    'template show': 'template:Show',
    'template save': 'template:Save',
    'template remove': 'template:Remove',
    'compute build': 'build:Build',
    'compute list': 'look:List',
    'compute show': 'look:Show',
    'compute status': 'look:Status',
    'compute console': 'look:Console',
    'compute check': 'look:Check',
    'compute watch': 'watch:Watch',
    'compute suspend': 'act:Suspend',
    'compute resume': 'act:Resume',
    'compute reboot': 'act:Reboot',
    'compute rebuild': 'act:Rebuild',
    'compute delete': 'act:Delete',
    'compute orphans': 'orphans:Orphans',
    'orphans': 'orphans:Orphans',
    'driver list': 'driver:List',
    'driver show': 'driver:Show',
    'driver doc': 'driver:Doc',
    'driver new': 'driver_new:New',
    'driver fork': 'driver_new:Fork',
    'driver lint': 'driver_check:Lint',
    'driver check': 'driver_check:Check',
    'driver explain': 'driver_check:Explain',
    'driver test': 'driver_test:Test',
    'circuit list': 'circuit:List',
    'circuit open': 'circuit:Open',
    'circuit close': 'circuit:Close',
    'appliance list': 'appliance:List',
    'appliance maintain': 'appliance:Maintain',
    'appliance return': 'appliance:Return',
    'appliance release': 'appliance:Release',
    'conductor': 'conductor:Conduct',
    'hook list': 'hook:List',
    'hook skip': 'hook:Skip',
    'hook test': 'hook:Test',
    'image build': 'image:Build',
    'image list': 'image:List',
    'image show': 'image:Show',
    'image remove': 'image:Remove',
    'image prune': 'image:Prune',
    'db upgrade': 'db:Upgrade',
    'db check': 'db:Check',
    'db purge': 'db:Purge',
    'db rotate-key': 'db:RotateKey',
    'completion': 'completion:Completion',
    'x': 'verb:Run',
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
