"""Commands that change existing amphorae: suspend, resume, reboot, rebuild, delete."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kiln.cli.arguments import (
    AMPHORAE,
    TIMEOUT,
    Adder,
    KilnLister,
    Rows,
    argument,
    find_all,
    flag,
    outcome,
)
from kiln.cli.output.fleet_progress import tally
from kiln.cli.output.views import cells
from kiln.exceptions import AmphoraComputeError

if TYPE_CHECKING:
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
        with (
            self.app.open_backend() as compute,
            tally(self.app, len(words), parsed_args.formatter) as progress,
        ):
            found = find_all(compute, words, parsed_args.timeout)
            for word in words:
                progress.set(word, 'waiting')
            started = {
                word: self._try(compute, amphora, parsed_args) for word, amphora in found.items()
            }
            failed = {}
            for word, operation in started.items():
                error = outcome(operation)
                if error is not None:
                    failed[word] = error
                progress.end(word, 'failed' if error else self._word(parsed_args))
        self.settle(failed.values(), len(words))
        return self._rows(found, failed, self._word(parsed_args))

    def _try(
        self,
        compute: Compute,
        amphora: Amphora | AmphoraComputeError,
        parsed_args: argparse.Namespace,
    ) -> Operation[None] | AmphoraComputeError:
        if isinstance(amphora, AmphoraComputeError):
            return amphora
        start: Callable[..., Operation[None]] = getattr(compute, self.verb)
        keywords = {name: getattr(parsed_args, name) for name in self.keywords}
        try:
            return start(
                amphora.id, wait=parsed_args.wait, timeout=parsed_args.timeout, **keywords
            )
        except AmphoraComputeError as exc:
            return exc

    def _word(self, parsed_args: argparse.Namespace) -> str:
        return self.done if parsed_args.wait else self.agreed

    @staticmethod
    def _rows(found: Mapping[str, Any], failed: Mapping[str, Any], word: str) -> Rows:
        rows = []
        for asked, amphora in found.items():
            known = None if isinstance(amphora, AmphoraComputeError) else amphora
            error = failed.get(asked)
            rows.append(
                cells(
                    [
                        known and known.id,
                        known.name if known else asked,
                        'failed' if error else word,
                        error and error.code,
                    ]
                )
            )
        return ('id', 'name', 'result', 'error'), rows


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
