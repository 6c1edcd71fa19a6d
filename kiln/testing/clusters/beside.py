"""Behaviours that kill processes, in processes of their own beside the rest of the kit.

They wait most of their time, and the rest of the kit computes. A program that has no threads
forks those processes, as it forks the processes that are killed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
import unittest
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Self

from kiln.testing.clusters.behaviours.crashes import CrashFixture
from kiln.testing.clusters.crash_runs.fork_server import (
    ForkLines,
    forked,
    pairs,
    prepare,
    serve,
    started,
    wait_for,
)
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.user_site import make_tables
from kiln.testing.report import BehaviourOutcome, BehaviourResult
from kiln.testing.runner import Behaviour, Progress, result_of, run

_PROGRAM = 'from kiln.testing.clusters.beside import main; main()'
_PROCESSES = 2


class Beside:
    """Runs the behaviours that kill processes while a block lasts; returns their results.

    Each process runs the next behaviour that no other has begun. Without any such behaviour
    no process is started.
    """

    def __init__(self, attributes: Mapping[str, Any], behaviours: Sequence[Behaviour]) -> None:
        """Take what fills in the fixture of the kit, and all behaviours of a run."""
        self._attributes = attributes
        self._behaviours = [one for one in behaviours if kills(one)]
        self._open = contextlib.ExitStack()
        self._connections: list[Connection] = []

    def __enter__(self) -> Self:
        if self._behaviours:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, each after the behaviour that it has begun."""
        self._open.close()

    def _start(self) -> None:
        made = [Pipe() for _ in range(_PROCESSES)]
        self._connections = [ours for ours, _ in made]
        numbers, queue = os.pipe()
        theirs = [numbers, *(one.fileno() for _, one in made)]
        program = started(_PROGRAM, theirs)
        self._open.callback(program.wait)
        for one in self._connections:
            self._open.callback(one.close)
        for _, one in made:
            one.close()
        os.close(numbers)
        # The last behaviour takes longest.
        os.write(queue, bytes(reversed(range(len(self._behaviours)))))
        os.close(queue)
        self._connections[0].send((dict(self._attributes), self._behaviours))

    def results(self, progress: Progress | None) -> tuple[BehaviourResult, ...]:
        """Wait for all results, and return them in the order of the kit."""
        found: dict[int, tuple[BehaviourResult, ...]] = {}
        for number, results in self._ended():
            found[number] = results
            for result in results:
                if progress is not None:
                    progress(result)
        lost = 'The process that ran it has ended before it. Its error is on stderr.'
        return tuple(
            result
            for number, one in enumerate(self._behaviours)
            for result in found.get(number, (result_of(one, BehaviourOutcome.FAILED, lost),))
        )

    def _ended(self) -> Iterator[tuple[int, tuple[BehaviourResult, ...]]]:
        """Yield numbers of behaviours, with their results, as they end."""
        running = list(self._connections)
        while running:
            ready = wait(running)
            for one in [one for one in running if one in ready]:
                try:
                    yield one.recv()
                except EOFError:
                    running.remove(one)


def kills(behaviour: Behaviour) -> bool:
    """Return True for a behaviour that kills processes."""
    return issubclass(behaviour[0], CrashFixture)


def main() -> None:
    """Run the program: the numbers of the queue and of the connections are its arguments."""
    queue, *numbers = map(int, sys.argv[1:])
    connections = [Connection(number) for number in numbers]
    attributes, behaviours = connections[0].recv()
    prepare(attributes['driver'])
    # Otherwise several processes would make them at the same time.
    make_tables()
    made = [pairs() for _ in connections]
    ours = [one for ends, _ in made for one in ends]
    theirs = [one for _, ends in made for one in ends]
    servers = serve(theirs, ours)
    workers = [
        forked(functools.partial(_work, attributes, behaviours, queue, connection, ends))
        for connection, (ends, _) in zip(connections, made, strict=True)
    ]
    for end in ours:
        end.close()
    for connection in connections:
        connection.close()
    wait_for([*workers, *servers])


def _work(
    attributes: dict[str, Any],
    behaviours: Sequence[Behaviour],
    queue: int,
    connection: Connection,
    ends: Sequence[socket.socket],
) -> int:
    """Run behaviours until the queue of their numbers is empty, or nobody waits for results."""
    filled = {**attributes, 'fork_lines': ForkLines(ends)}
    given: Any = type('Given', (ClusterFixture, unittest.TestCase), filled)
    with contextlib.suppress(BrokenPipeError):
        while number := os.read(queue, 1):
            connection.send((number[0], run(given, [behaviours[number[0]]], None)))
    return 0
