"""Commands that change existing amphorae: suspend, resume, reboot, rebuild, delete."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from kiln.cli.arguments import AMPHORAE, TIMEOUT, Adder, argument, flag
from kiln.cli.base import KilnLister, Rows
from kiln.cli.compute.calls import attempt, find_all, outcome
from kiln.cli.output.fleet_progress import tally
from kiln.cli.output.views import cells
from kiln.exceptions import AmphoraComputeError

if TYPE_CHECKING:
    from kiln.cli.compute.calls import Started
    from kiln.compute.facade import Compute
    from kiln.models import Amphora
    from kiln.wrappers.operations.operation import Operation


class Act(KilnLister):
    """Runs one action on several amphorae at once, and prints the result of each."""

    arguments: ClassVar[Sequence[Adder]] = (
        AMPHORAE,
        flag(
            '--wait', 'Return when the backend has done it, not when it has accepted the request.'
        ),
        TIMEOUT,
    )
    #: The method of ``Compute`` that runs the action.
    verb: ClassVar[str]
    #: Keyword arguments of the method that are arguments of this command only.
    keywords: ClassVar[tuple[str, ...]] = ()
    #: The printed result without and with ``--wait``.
    agreed: ClassVar[str]
    done: ClassVar[str]

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        words = list(dict.fromkeys(parsed_args.amphorae))
        result = self.done if parsed_args.wait else self.agreed
        errors: dict[str, AmphoraComputeError | None] = {}
        with (
            self.app.open_backend() as compute,
            tally(self.app, len(words), parsed_args.formatter) as progress,
        ):
            found = find_all(compute, words, parsed_args.timeout)
            for word in words:
                progress.set(word, 'waiting')
            started = {
                word: self._start(compute, amphora, parsed_args) for word, amphora in found.items()
            }
            for word, operation in started.items():
                errors[word] = error = outcome(operation)
                progress.end(word, 'failed' if error else result)
        self.settle([error for error in errors.values() if error], len(words))
        return ('id', 'name', 'result', 'error'), [
            cells(
                [*_names(word, found[word]), 'failed' if error else result, error and error.code]
            )
            for word, error in errors.items()
        ]

    def _start(
        self, compute: Compute, amphora: Amphora | AmphoraComputeError, args: argparse.Namespace
    ) -> Started[None]:
        if isinstance(amphora, AmphoraComputeError):
            return amphora
        start: Callable[..., Operation[None]] = getattr(compute, self.verb)
        keywords = {name: getattr(args, name) for name in self.keywords}
        return attempt(start, amphora.id, wait=args.wait, timeout=args.timeout, **keywords)


def _names(word: str, found: Amphora | AmphoraComputeError) -> tuple[str | None, str]:
    return (None, word) if isinstance(found, AmphoraComputeError) else (found.id, found.name)


class Suspend(Act):
    """Suspend amphorae."""

    verb, agreed, done = 'suspend', 'suspending', 'suspended'


class Resume(Act):
    """Resume suspended amphorae."""

    verb, agreed, done = 'resume', 'resuming', 'active'


class Reboot(Act):
    """Reboot amphorae."""

    verb, agreed, done = 'reboot', 'rebooting', 'active'
    keywords = ('hard',)
    arguments = (flag('--hard', 'Power-cycle instead of a clean reboot.'),)


class Rebuild(Act):
    """Rebuild amphorae from their own or another image; they keep their ids."""

    verb, agreed, done = 'rebuild', 'rebuilding', 'active'
    keywords = ('image_id',)
    arguments = (argument('--image', dest='image_id', metavar='ID', help='Id of the new image.'),)


class Delete(Act):
    """Delete amphorae."""

    verb, agreed, done = 'delete', 'deleting', 'gone'
