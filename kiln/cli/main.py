"""The command ``kiln``: global options, errors, exit status."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from cliff.app import App
from cliff.command import Command

from kiln.cli.commands import CommandTable
from kiln.cli.exit_codes import ExitCode, code_of, explain
from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.cluster_exceptions import WithProblems

if TYPE_CHECKING:
    from kiln.compute import Compute
    from kiln.driver_manager import DriverManager

DESCRIPTION = 'Builds and looks after the machines that load balancers and clusters run on.'


class _Version(argparse.Action):
    """Prints the version; it takes a while to find, so only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        sys.stdout.write(f'kiln {importlib.metadata.version("kiln-compute")}\n')
        parser.exit()


class _OneLine(logging.Formatter):
    """Shows an error as the line that its reader can act on."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.msg
        if not isinstance(error, BaseException):
            return f'kiln: {record.getMessage()}'
        said = explain(error)
        # Editors know FILE:LINE:COLUMN where it begins a line.
        located = isinstance(error, WithProblems) and any(one.line for one in error.problems)
        line = said if located else 'kiln: ' + said.replace('\n', '\nkiln: ')
        if record.exc_info:
            line = f'{self.formatException(record.exc_info)}\n{line}'
        return line


class KilnApp(App):
    """One run of the command."""

    NAME = 'kiln'

    def __init__(
        self,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            DESCRIPTION,
            version=None,
            command_manager=CommandTable(),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            # Else `kiln compute build --help` would be about kiln alone.
            deferred_help=True,
        )
        # That of cliff is for one shell, and knows no names.
        del self.command_manager.commands['complete']
        #: The options of kiln, once ``settings`` or ``backends`` was asked for.
        self.conf: Any = None
        #: What all commands go by, and what they open.
        self.clock = clock
        #: Whether SIGTERM came; it ends a command as Ctrl-C does.
        self.terminated = False
        self._error: BaseException | None = None
        # Belongs to this run alone, so no configuration of logs silences it.
        self.LOG = logging.Logger('kiln')
        self._complaints = logging.StreamHandler(self.stderr)
        self._complaints.setFormatter(_OneLine())
        self._complaints.setLevel(logging.ERROR)
        self.LOG.addHandler(self._complaints)

    # ---- for commands ----------------------------------------------------

    @functools.cached_property
    def settings(self) -> Any:
        """The options of kiln, read when a command first asks."""
        from kiln import conf as kiln_conf

        self.conf = kiln_conf.load(self.options.config_file, self.options.config_dir)
        # Nothing but oslo.log has options there.
        if 'DEFAULT' in self.conf.list_all_sections():
            self._log_as_configured()
        return self.conf

    @functools.cached_property
    def backends(self) -> DriverManager:
        """What the configuration describes, read when a command first asks."""
        from kiln.driver_manager import DriverManager

        return DriverManager(self.settings)

    @property
    def backend_name(self) -> str:
        """The backend that the command is about."""
        name: str | None = self.options.backend
        return name or self.backends.default_backend

    @contextlib.contextmanager
    def open_backend(self, *, wait_s: float = 1.0) -> Iterator[Compute]:
        """Open the backend that the command is about.

        At the end, what is still under way there has ``wait_s`` seconds.
        """
        compute = self.backends.open(self.backend_name, clock=self.clock)
        try:
            yield compute
        finally:
            compute.close(wait_s)

    def complain(self, error: BaseException) -> None:
        """Explain an error in one line on stderr."""
        self.LOG.error(error)

    def say(self, text: str) -> None:
        """Tell something on stderr, unless it is to be quiet there."""
        if self.options.verbose_level:
            self.stderr.write(f'kiln: {text}\n')

    # ---- what cliff calls ------------------------------------------------

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Add kiln's own global options to cliff's."""
        # An abbreviation would catch options that are meant for a command.
        parser: argparse.ArgumentParser = super().build_option_parser(
            description,
            version,
            {'allow_abbrev': False, 'conflict_handler': 'resolve', 'prog': self.NAME},
        )
        parser.add_argument(
            '--version', action=_Version, nargs=0, help='Show the version and exit.'
        )
        parser.add_argument(
            '--config-file',
            action='append',
            metavar='FILE',
            help='Read this file instead of kiln.conf; may be repeated.',
        )
        parser.add_argument(
            '--config-dir',
            action='append',
            metavar='DIR',
            help='Read the *.conf files of this directory; may be repeated.',
        )
        parser.add_argument(
            '--backend',
            metavar='NAME',
            help='Backend to use: the NAME of a [compute:NAME] group, or of a driver '
            '(default: [compute] default_backend).',
        )
        return parser

    def configure_logging(self) -> None:
        """Keep the library silent but for errors, unless its log is asked for."""
        logging.getLogger().addHandler(self._complaints)
        options = self.options
        if options.debug or options.log_file or options.verbose_level > 1:
            try:
                self._log_as_configured()
            # No command runs yet that cliff would report this error of, whatever it is.
            except Exception as exc:
                self._error = exc
                raise

    def _log_as_configured(self) -> None:
        from kiln.cli import logs

        options = self.options
        logs.set_up(
            options.config_file,
            options.config_dir,
            debug=options.debug or options.verbose_level > 2,
            to_stderr=(options.debug or options.verbose_level > 1) and not options.log_file,
            log_file=options.log_file,
        )

    def initialize_app(self, argv: list[str]) -> None:
        """Show the help where no command is named, instead of a shell."""
        if not argv:
            self.options.deferred_help = True

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return none: the command table names what is near, and on stderr."""
        return []

    def clean_up(self, cmd: Command, result: int, err: BaseException | None) -> None:
        """Remember the error, whose class decides on the exit status."""
        self._error = err

    def run(self, argv: list[str]) -> int:
        """Run one command; return its exit status, and never raise."""
        try:
            try:
                result = super().run(argv)
                if isinstance(self._error, Exception) and result != ExitCode.OUTPUT_CLOSED:
                    result = code_of(self._error)
            except SystemExit as exc:
                result = exc.code if isinstance(exc.code, int) else ExitCode.OK
            self.stdout.flush()
        except KeyboardInterrupt:
            result = ExitCode.INTERRUPTED
        except BrokenPipeError:
            result = ExitCode.OUTPUT_CLOSED
        # The last resort: nobody shall have to read a traceback.
        except Exception as exc:
            self.complain(exc)
            result = code_of(exc)
        finally:
            logging.getLogger().removeHandler(self._complaints)
        if result == ExitCode.INTERRUPTED and self.terminated:
            result = ExitCode.TERMINATED
        elif result == ExitCode.INTERRUPTED:
            self.LOG.error('Interrupted.')
        self.stderr.flush()
        return result


def main() -> NoReturn:
    """Run the command of this process, and end the process."""
    _replace_closed_streams()
    app = KilnApp()
    if '_ARGCOMPLETE' in os.environ:
        from kiln.cli import completion

        completion.answer(app)

    def terminate(signum: int, frame: FrameType | None) -> None:
        # As Ctrl-C, so that what is under way is ended and cleaned up.
        app.terminated = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    status = app.run(sys.argv[1:])
    logging.shutdown()
    # Without a farewell: Python would first wait for idle threads, up to a
    # second, and for one that a backend holds up as long as it likes.
    os._exit(status)


def _replace_closed_streams() -> None:
    # Python has None for what its caller closed. Whoever wants no output gets
    # none; what happens, and the exit status, are the same.
    for name in ('stdout', 'stderr'):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), 'w'))
