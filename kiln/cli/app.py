"""Application of the command ``kiln``: global options, errors, exit status."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from cliff.app import App
from cliff.command import Command

from kiln.cli.commands import CommandTable
from kiln.cli.exit_codes import ExitCode, UsageError, code_of, explain
from kiln.cli.output.visible_stream import visible_stream
from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.clusters.exceptions import WithProblems
from kiln.exceptions import redact_all

if TYPE_CHECKING:
    from kiln.cli.output.delays import Delays
    from kiln.cluster_service.site import Site
    from kiln.compute.backends import DriverManager
    from kiln.compute.facade import Compute

DESCRIPTION = 'Builds and maintains the machines that load balancers and clusters run on.'


class _Version(argparse.Action):
    """Prints the version, which is slow to find, only when requested."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        sys.stdout.write(f'kiln {importlib.metadata.version("kiln-compute")}\n')
        parser.exit()


class _OneLine(logging.Formatter):
    """Formats an error as a line that the user can act on."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.msg
        if not isinstance(error, BaseException):
            return f'kiln: {redact_all(record.getMessage())}'
        said = explain(error)
        # Editors recognize FILE:LINE:COLUMN at the start of a line.
        located = isinstance(error, WithProblems) and any(one.line for one in error.problems)
        line = said if located else 'kiln: ' + said.replace('\n', '\nkiln: ')
        if record.exc_info:
            line = f'{redact_all(self.formatException(record.exc_info))}\n{line}'
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
            # Else `kiln compute build --help` would print the help of kiln.
            deferred_help=True,
        )
        self.stdout, self.stderr = visible_stream(self.stdout), visible_stream(self.stderr)
        # The completion of cliff supports one shell and no names of objects.
        del self.command_manager.commands['complete']
        #: The options of kiln, set when ``settings`` or ``backends`` is first read.
        self.conf: Any = None
        #: The clock of all commands and of what they open.
        self.clock = clock
        #: True after SIGTERM, which ends a command as Ctrl-C does.
        self.terminated = False
        self._error: BaseException | None = None
        self._is_service = False
        # Private to this run, so that no log configuration silences it.
        self.LOG = logging.Logger('kiln')
        self._complaints = logging.StreamHandler(self.stderr)
        self._complaints.setFormatter(_OneLine())
        self._complaints.setLevel(logging.ERROR)
        self.LOG.addHandler(self._complaints)

    # ---- for commands ----------------------------------------------------

    @functools.cached_property
    def settings(self) -> Any:
        """The options of kiln, loaded on first use."""
        from kiln import conf as kiln_conf
        from kiln.conf.unknown import unknown_settings

        self.conf = kiln_conf.load(self.options.config_file, self.options.config_dir)
        for sentence in unknown_settings(self.conf):
            self.say(sentence)
        # Only oslo.log has options there.
        if 'DEFAULT' in self.conf.list_all_sections():
            self._set_up_log()
        return self.conf

    @functools.cached_property
    def backends(self) -> DriverManager:
        """The configured backends, loaded on first use."""
        from kiln.compute.backends import DriverManager

        return DriverManager(self.settings, report=self.say)

    @functools.cached_property
    def delays(self) -> Delays:
        """Listener that prints on stderr why a backend keeps the command waiting."""
        from kiln.cli.output.delays import Delays

        return Delays(self.say, self.clock)

    @property
    def backend_name(self) -> str:
        """The name of the backend that the command uses."""
        name: str | None = self.options.backend
        return self.backends.default_backend if name is None else name

    @contextlib.contextmanager
    def open_backend(self, *, wait_s: float = 1.0) -> Iterator[Compute]:
        """Open the backend that the command uses.

        On exit, running operations have ``wait_s`` seconds to end.
        """
        compute = self.backends.open(self.backend_name, clock=self.clock, listeners=(self.delays,))
        try:
            yield compute
        finally:
            compute.close(wait_s)

    def open_site(self, *, waits: bool = True) -> Site:
        """Open the site as configured; the caller closes it.

        :param waits: Print why backends keep the command waiting.
        """
        from kiln.cli.site.stores import configured_site
        from kiln.conf.db import default_url

        settings = self.settings
        # A second configuration can be meant as a second site, and would not be one.
        if self.options.config_file and not settings.db.url:
            self.say(
                f'The clusters are in the default store, {default_url()}, which every '
                f'configuration without [db] url shares.'
            )
        listeners = (self.delays,) if waits else ()
        return configured_site(settings, self.clock, listeners=listeners, report=self.say)

    def say_what_ends(self) -> None:
        """Warn where machines are built that nobody configured a backend for."""
        name = self.options.backend or self.backends.default_backend
        if name == 'noop' and name not in self.backends.backends():
            self.say(
                'No configuration names a backend. This one is simulated, and its machines end '
                'with this command. To use another one, name its file: --config-file FILE.'
            )

    def complain(self, error: BaseException) -> None:
        """Print the explanation of an error on stderr."""
        self.LOG.error(error)

    def say(self, text: str) -> None:
        """Print a line on stderr, unless --quiet is set."""
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
        # Abbreviations would capture options of the commands.
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
            help='Read this file instead of kiln.conf; can be repeated.',
        )
        parser.add_argument(
            '--config-dir',
            action='append',
            metavar='DIR',
            help='Read the *.conf files of this directory; can be repeated.',
        )
        parser.add_argument(
            '--backend',
            metavar='NAME',
            help='Backend to use: the NAME of a [compute:NAME] group or of a driver '
            '(default: [compute] default_backend).',
        )
        return parser

    def configure_logging(self) -> None:
        """Show only errors of the library, unless logging is requested."""
        logging.getLogger().addHandler(self._complaints)
        options = self.options
        if options.debug or options.log_file or options.verbose_level > 1:
            try:
                self._set_up_log()
            # No command runs at this point, so cliff would not report the error.
            except Exception as exc:
                self._error = exc
                raise

    def log_as_service(self) -> None:
        """Log as configured, or else to stderr, unless options of the command say how."""
        options = self.options
        if not options.debug and not options.log_file and options.verbose_level == 1:
            self._is_service = True
            self._set_up_log()

    def _set_up_log(self) -> None:
        from kiln.cli import logs

        options = self.options
        logs.set_up(
            options.config_file,
            options.config_dir,
            debug=options.debug or options.verbose_level > 2,
            to_stderr=(options.debug or options.verbose_level > 1) and not options.log_file,
            log_file=options.log_file,
            service=self._is_service,
        )

    def initialize_app(self, argv: list[str]) -> None:
        """Show the help instead of a shell where no command is given."""
        if not argv:
            self.options.deferred_help = True

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return none: the command table suggests similar commands on stderr."""
        return []

    def clean_up(self, cmd: Command, result: int, err: BaseException | None) -> None:
        """Keep the error, whose class determines the exit status."""
        self._error = err

    def run(self, argv: list[str]) -> int:
        """Run one command and return its exit status; never raise."""
        try:
            try:
                _check_text(argv)
                result = super().run(argv)
                if isinstance(self._error, Exception) and result != ExitCode.OUTPUT_CLOSED:
                    result = code_of(self._error)
            except SystemExit as exc:
                result = exc.code if isinstance(exc.code, int) else ExitCode.OK
            self.stdout.flush()
        except KeyboardInterrupt as exc:
            self._error, result = exc, ExitCode.INTERRUPTED
        except BrokenPipeError:
            result = ExitCode.OUTPUT_CLOSED
        # Last resort: users must not see a traceback.
        except Exception as exc:
            self.complain(exc)
            result = code_of(exc)
        finally:
            logging.getLogger().removeHandler(self._complaints)
            if 'delays' in vars(self):
                self.delays.close()
        if result == ExitCode.INTERRUPTED and self.terminated:
            result = ExitCode.TERMINATED
        # Otherwise an operation was cancelled, which has been reported.
        elif isinstance(self._error, KeyboardInterrupt):
            self.LOG.error('Interrupted.')
        self.stderr.flush()
        return result


def _check_text(argv: Sequence[str]) -> None:
    """Refuse arguments that are not text; neither stores nor backends could take them."""
    for number, word in enumerate(argv, 1):
        try:
            word.encode()
        except UnicodeEncodeError as exc:
            why = f'{word!a} is not UTF-8 text'
            raise UsageError(f'Cannot read argument {number}: {why}.') from exc
