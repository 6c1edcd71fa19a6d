"""Status of the cloud's processes, and the resources they use."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator

from .processes import Supervisor

TICKS_PER_S = os.sysconf('SC_CLK_TCK')


@dataclasses.dataclass(frozen=True)
class Use:
    """Resources used by a process and its children."""

    name: str
    pid: int | None  # None when it has died
    memory_mb: float = 0.0  # each shared page counted once
    cpu_s: float = 0.0

    def __str__(self) -> str:
        if self.pid is None:
            return f'{self.name:24} DEAD'
        return (
            f'{self.name:24} pid {self.pid:<7} {self.memory_mb:6.0f} MB {self.cpu_s:8.1f} s of CPU'
        )


def uses(supervisor: Supervisor) -> Iterator[Use]:
    """Return the resources of each process, dead ones included."""
    children = _children()
    for name in supervisor.names():
        running = supervisor.find(name)
        if running is None:
            yield Use(name, None)
            continue
        family = [running.pid]
        for pid in family:
            family += children.get(pid, [])
        yield Use(name, running.pid, sum(map(_memory_mb, family)), sum(map(_cpu_s, family)))


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path('/proc').iterdir():
        if folder.name.isdigit() and (fields := _fields(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    return children


def _fields(pid: int) -> list[str]:
    """Return the numbers behind a process's name; empty if it has ended."""
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    except OSError:
        return []


def _cpu_s(pid: int) -> float:
    fields = _fields(pid)
    return sum(map(int, fields[11:13])) / TICKS_PER_S


def _memory_mb(pid: int) -> float:
    try:
        lines = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith('Pss:')) / 1024
