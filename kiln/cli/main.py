"""The command ``kiln`` as a process: signals, streams, exit status."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from typing import NoReturn

from kiln.cli import interrupts
from kiln.cli.app import KilnApp
from kiln.exceptions import redact_all
from kiln.telemetry import flush_traces


def main() -> NoReturn:
    """Run the command of this process, and end the process."""
    _replace_closed_streams()
    app = KilnApp()
    if '_ARGCOMPLETE' in os.environ:
        from kiln.cli import completion

        completion.answer(app)

    def told(number: int) -> None:
        # SIGTERM interrupts as Ctrl-C does, so that running work is ended and cleaned up.
        app.terminated = number == signal.SIGTERM

    threading.excepthook = _show
    # What a thread logs while the command ends, after the log has, is nobody's message.
    logging.lastResort = logging.NullHandler()
    interrupts.install(told)
    status = app.run(sys.argv[1:])
    flush_traces()
    logging.shutdown()
    # Skip the shutdown of Python: it would wait up to a second for idle threads, and
    # without limit for a thread that a backend blocks.
    os._exit(status)


def _show(args: threading.ExceptHookArgs) -> None:
    """Show a defect that ended a thread, without secrets."""
    text = ''.join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback))
    sys.stderr.write(redact_all(text))


def _replace_closed_streams() -> None:
    # Streams that the caller closed are None in Python. The command then prints nothing,
    # but does the same and has the same exit status.
    for name in ('stdout', 'stderr'):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), 'w'))
