"""Loading of command drivers: keys of driver.yaml, and the class of a directory."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.command.command_driver import CommandDriver
from kiln.cluster_drivers.discovery.folder_base import Folder, FolderBase
from kiln.cluster_drivers.discovery.yaml_fields import HELP, NAMING, VALUES, Base
from kiln.cluster_drivers.discovery.yaml_types import Named, settled
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.values import Cap
from kiln.clusters.exceptions import InvalidClusterDriver, Problem
from kiln.programs.accounts import NEEDED_TO_END_ALL, Account, AccountError, account_of
from kiln.yaml_schema.container_checks import ListOf
from kiln.yaml_schema.mapping_checks import Field, Record
from kiln.yaml_schema.value_checks import Choice, Duration, Text

_FILE = 'driver'
#: The benches of the kit: for a driver without a bench program, and with one.
_BENCH = 'kiln.testing.clusters.program_bench:ProgramBench'
_BENCH_PROGRAM = 'kiln.testing.clusters.program_bench:BenchProgram'


class Extra(enum.StrEnum):
    """Capabilities that a program can have, beside create, update and delete."""

    RESIZE = Cap.RESIZE.value
    UPGRADE = Cap.UPGRADE.value


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Contents of the driver.yaml of a command driver."""

    name: str
    version: str
    provides: tuple[ClusterType, ...]
    program: str
    base: Base = Base.COMMAND
    beta: bool = False
    capabilities: tuple[Extra, ...] = ()
    parameters: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)
    timeout_s: float = 3600.0
    grace_s: float = 30.0
    bench: str | None = None


_PROGRAM = Text('the name of a file in the directory', pattern=r'[A-Za-z0-9_][A-Za-z0-9._-]*')

COMMAND = Record(
    Declared,
    'a driver whose engine is a program',
    *NAMING,
    Field(
        name='program', kind=_PROGRAM, required=True,
        help='The executable file that builds clusters.',
    ),
    Field(
        name='capabilities', kind=ListOf(Choice(Extra), 'a list of capabilities', least=1),
        help='What the program can beside create, update and delete.',
    ),
    Field(
        name='parameters',
        kind=Named(
            Record(
                Parameter, 'a parameter', *VALUES, HELP, settle=settled(Parameter), file=_FILE
            ),
            Parameter, 'name', 'a mapping of names to parameters',
        ),
        help='The parameters that the owner of a cluster can set.',
    ),
    Field(
        name='timeout', into='timeout_s', kind=Duration(1, 7 * 86400),
        help='How long a run of the program can take; a creation has the time of its operation.',
    ),
    Field(
        name='grace', into='grace_s', kind=Duration(1, 3600),
        help='How long the program has to end by itself before it is killed.',
    ),
    Field(
        name='bench', kind=_PROGRAM,
        help='The executable file by which "kiln driver test" sees what the program has built.',
    ),
    file=_FILE,
)  # fmt: skip


def _account(user: str) -> Account | None:
    try:
        return account_of(user, what='programs', needed=NEEDED_TO_END_ALL)
    except AccountError as exc:
        problem = Problem(message=f'[clusters] program_user: {exc}')
        raise InvalidClusterDriver([problem]) from exc


def _attributes(folder: Folder) -> Mapping[str, Any]:
    declared, user = folder.declared, folder.programs.user
    offered = {Cap(one.value) for one in declared.capabilities}
    return {
        'missing_capabilities': frozenset(map(Cap, Extra)) - offered,
        'program_file': declared.program,
        'parameters': declared.parameters,
        'timeout_s': declared.timeout_s,
        'grace_s': declared.grace_s,
        'bench': _BENCH_PROGRAM if declared.bench else _BENCH,
        'bench_file': declared.bench,
        'account': _account(user) if user else None,
        'runs_in': folder.programs.runs,
    }


#: What discovery finds here by the word ``command``.
BASE = FolderBase(COMMAND, CommandDriver, _attributes)
