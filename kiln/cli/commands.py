"""Table of commands and their classes; a class is imported when its command runs.

A file is named by the commands in it: ``kiln cluster delete`` is in ``cluster/delete.py``,
and all of ``kiln node`` is in ``cluster/node.py``.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint

from cliff.command import Command
from cliff.commandmanager import CommandManager

from kiln.cli.exit_codes import UsageError

_HOMES = {
    'up': 'cluster.up_plan_schema:Up',
    'plan': 'cluster.up_plan_schema:Plan',
    'why': 'cluster.list_show_why:Why',
    'schema': 'cluster.up_plan_schema:Schema',
    'cluster list': 'cluster.list_show_why:List',
    'cluster show': 'cluster.list_show_why:Show',
    'cluster why': 'cluster.list_show_why:Why',
    'cluster events': 'cluster.events_receipt:Events',
    'cluster receipt': 'cluster.events_receipt:Receipt',
    'cluster watch': 'cluster.watch_retry_cancel:Watch',
    'cluster scale': 'cluster.scale_upgrade_migrate_rollback:Scale',
    'cluster upgrade': 'cluster.scale_upgrade_migrate_rollback:Upgrade',
    'cluster reboot': 'cluster.reboot_rebuild_adopt_check:Reboot',
    'cluster rebuild': 'cluster.reboot_rebuild_adopt_check:Rebuild',
    'cluster adopt': 'cluster.reboot_rebuild_adopt_check:Adopt',
    'cluster check': 'cluster.reboot_rebuild_adopt_check:Check',
    'cluster rollback': 'cluster.scale_upgrade_migrate_rollback:Rollback',
    'cluster migrate-driver': 'cluster.scale_upgrade_migrate_rollback:MoveDriver',
    'cluster pause': 'cluster.pause_resume:Pause',
    'cluster resume': 'cluster.pause_resume:Resume',
    'cluster retry': 'cluster.watch_retry_cancel:Retry',
    'cluster cancel': 'cluster.watch_retry_cancel:Cancel',
    'cluster delete': 'cluster.delete:Delete',
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
    'compute list': 'compute.list_show_status_console_check:List',
    'compute show': 'compute.list_show_status_console_check:Show',
    'compute status': 'compute.list_show_status_console_check:Status',
    'compute console': 'compute.list_show_status_console_check:Console',
    'compute check': 'compute.list_show_status_console_check:Check',
    'compute watch': 'compute.watch:Watch',
    'compute suspend': 'compute.suspend_resume_reboot_rebuild_delete:Suspend',
    'compute resume': 'compute.suspend_resume_reboot_rebuild_delete:Resume',
    'compute reboot': 'compute.suspend_resume_reboot_rebuild_delete:Reboot',
    'compute rebuild': 'compute.suspend_resume_reboot_rebuild_delete:Rebuild',
    'compute delete': 'compute.suspend_resume_reboot_rebuild_delete:Delete',
    'compute orphans': 'compute.orphans:Orphans',
    'orphans': 'compute.orphans:Orphans',
    'driver list': 'driver.list_show:List',
    'driver show': 'driver.list_show:Show',
    'driver doc': 'driver.doc:Doc',
    'driver new': 'driver.new_fork:New',
    'driver fork': 'driver.new_fork:Fork',
    'driver lint': 'driver.explain_lint:Lint',
    'driver check': 'driver.check:Check',
    'driver explain': 'driver.explain_lint:Explain',
    'driver test': 'driver.test:Test',
    'driver mutate': 'driver.mutate:Mutate',
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
    'image build': 'site.image:Build',
    'image list': 'site.image:List',
    'image show': 'site.image:Show',
    'image remove': 'site.image:Remove',
    'image prune': 'site.image:Prune',
    'db upgrade': 'site.db:Upgrade',
    'db check': 'site.db:Check',
    'db purge': 'site.db:Purge',
    'db rotate-key': 'site.db:RotateKey',
    'completion': 'completion:Completion',
    'x': 'cluster.x:Run',
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
