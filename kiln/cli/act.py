"""Commands that change amphorae which exist."""

from __future__ import annotations

import abc
import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kiln.cli.base import KilnLister, Rows, add_names, add_timeout, find_all, outcome
from kiln.cli.progress import tally
from kiln.cli.views import cells
from kiln.exceptions import AmphoraComputeError

if TYPE_CHECKING:
    from kiln.compute import Compute
    from kiln.models import Amphora
    from kiln.wrappers.operation import Operation


class Act(KilnLister):
    """Does one thing to several amphorae at once, and says how each came out."""

    #: How the result is called when it is agreed, and when it is waited for.
    agreed: ClassVar[str]
    done: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_names(parser, several=True)
        parser.add_argument(
            '--wait', action='store_true', help='Return when it has happened, not when agreed.'
        )
        add_timeout(parser)
        return parser

    @abc.abstractmethod
    def start(
        self, compute: Compute, amphora_id: str, parsed_args: argparse.Namespace
    ) -> Operation[None]:
        """Have it done to one amphora."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Find all, start all, and wait for all."""
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
        try:
            return self.start(compute, amphora.id, parsed_args)
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

    agreed, done = 'suspending', 'suspended'

    def start(
        self, compute: Compute, amphora_id: str, parsed_args: argparse.Namespace
    ) -> Operation[None]:
        """Have one suspended."""
        return compute.suspend(amphora_id, wait=parsed_args.wait, timeout=parsed_args.timeout)


class Resume(Act):
    """Let suspended amphorae go on."""

    agreed, done = 'resuming', 'active'

    def start(
        self, compute: Compute, amphora_id: str, parsed_args: argparse.Namespace
    ) -> Operation[None]:
        """Have one resumed."""
        return compute.resume(amphora_id, wait=parsed_args.wait, timeout=parsed_args.timeout)


class Reboot(Act):
    """Reboot amphorae."""

    agreed, done = 'rebooting', 'active'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--hard', action='store_true', help='Reboot as by the power switch.')
        return parser

    def start(
        self, compute: Compute, amphora_id: str, parsed_args: argparse.Namespace
    ) -> Operation[None]:
        """Have one rebooted."""
        return compute.reboot(
            amphora_id,
            hard=parsed_args.hard,
            wait=parsed_args.wait,
            timeout=parsed_args.timeout,
        )


class Rebuild(Act):
    """Make amphorae anew under their ids, from their image or another."""

    agreed, done = 'rebuilding', 'active'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--image', metavar='ID', help='Id of the new image.')
        return parser

    def start(
        self, compute: Compute, amphora_id: str, parsed_args: argparse.Namespace
    ) -> Operation[None]:
        """Have one rebuilt."""
        return compute.rebuild(
            amphora_id,
            image_id=parsed_args.image,
            wait=parsed_args.wait,
            timeout=parsed_args.timeout,
        )


class Delete(Act):
    """Delete amphorae."""

    agreed, done = 'deleting', 'gone'

    def start(
        self, compute: Compute, amphora_id: str, parsed_args: argparse.Namespace
    ) -> Operation[None]:
        """Have one deleted."""
        return compute.delete(amphora_id, wait=parsed_args.wait, timeout=parsed_args.timeout)
