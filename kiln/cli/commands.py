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

#: The commands of each module; the class of a command is called like its last word.
_COMMANDS = {
    'cluster.up_plan_schema': 'up, plan, schema',
    'cluster.list_show_why': 'why, cluster list, cluster show, cluster why',
    'cluster.events_receipt': 'cluster events, cluster receipt',
    'cluster.watch_retry_cancel': 'cluster watch, cluster retry, cluster cancel',
    'cluster.scale_upgrade_migrate_rollback': 'cluster scale, cluster upgrade, cluster rollback, '
    'cluster migrate-driver',
    'cluster.reboot_rebuild_adopt_check': 'cluster reboot, cluster rebuild, cluster adopt, '
    'cluster check',
    'cluster.adopt_stack': 'cluster adopt-stack',
    'cluster.forget_stack': 'cluster forget-stack',
    'cluster.pause_resume': 'cluster pause, cluster resume',
    'cluster.rotate': 'cluster rotate',
    'cluster.metrics': 'cluster metrics',
    'cluster.delete': 'cluster delete',
    'cluster.node': 'node list, node show, node console, node remove, node replace, node reboot',
    'cluster.template': 'template list, template show, template save, template remove',
    'compute.build': 'compute build',
    'compute.list_show_status_console_check': 'compute list, compute show, compute status, '
    'compute console, compute check',
    'compute.claim': 'compute claim',
    'compute.watch': 'compute watch',
    'compute.suspend_resume_reboot_rebuild_delete': 'compute suspend, compute resume, '
    'compute reboot, compute rebuild, compute delete',
    'compute.orphans': 'compute orphans, orphans',
    'driver.list_show': 'driver list, driver show',
    'driver.doc': 'driver doc',
    'driver.contract': 'driver contract',
    'driver.new_fork': 'driver new, driver fork',
    'driver.explain_lint': 'driver lint, driver explain',
    'driver.check': 'driver check',
    'driver.test': 'driver test',
    'driver.mutate': 'driver mutate',
    'compute.circuit': 'circuit list, circuit open, circuit close',
    'compute.appliance': 'appliance list, appliance maintain, appliance return, appliance release',
    'site.conductor': 'conductor',
    'site.hook': 'hook list, hook skip, hook test',
    'site.image': 'image build, image list, image show, image remove, image prune',
    'site.db': 'db upgrade, db check, db purge, db rotate-key, db backup, db restore',
    'completion': 'completion',
    'cluster.x': 'x',
    'demo': 'demo',
}
#: The class of each command.
_HOMES = {
    name: f'{module}:{name.split()[-1].title().replace("-", "")}'
    for module, names in _COMMANDS.items()
    for name in names.split(', ')
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
