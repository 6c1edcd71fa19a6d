"""Description of a service of the cloud."""

import abc
import pathlib
from collections.abc import Mapping
from types import MappingProxyType

from ..backends import Database
from ..packages import CONSTRAINTS, HERE, Venv
from ..place import Place
from ..processes import Process, Stage
from ..settings import Sections
from ..wishes import Wishes

SERVE = HERE / 'inside' / 'serve.py'
SERVER_PACKAGES = ('gunicorn', 'pymemcache', 'pymysql', 'python-memcached')


class Service(abc.ABC):
    """A description, carried out by the engine (cloud.py)."""

    name: str
    requirements: tuple[str, ...]
    # What its command line needs beside the service, where that has an environment of its own.
    clients: tuple[str, ...] = ()
    # One file of each Debian package that it needs beside the backends, and the package.
    debian: Mapping[str, str] = MappingProxyType({})
    databases: tuple[str, ...]
    catalog: tuple[str, str] | None = None  # type and path, for all but Keystone
    venv_name = 'venv'
    needs_seed = False  # its configuration contains ids of objects that the seed makes
    # Tables that its processes keep writing, or hold in memory: a reset skips them.
    living_tables: tuple[str, ...] = ()

    def __init__(self, place: Place, wishes: Wishes):
        self.place = place
        self.wishes = wishes
        self.venv = Venv(place, self.venv_name)

    @property
    def etc(self) -> pathlib.Path:
        """The folder of its configuration."""
        return self.place.etc / self.name

    @property
    def config(self) -> pathlib.Path:
        """Its own configuration file."""
        return self.etc / f'{self.name}.conf'

    @property
    def data(self) -> pathlib.Path:
        """The folder of its state."""
        return self.place.data / self.name

    @property
    def versions(self) -> pathlib.Path:
        """The file that changes with the code of its processes."""
        return CONSTRAINTS

    @abc.abstractmethod
    def files(self) -> Mapping[pathlib.Path, Sections]:
        """Return its configuration files."""

    def copies(self) -> Mapping[pathlib.Path, pathlib.Path]:
        """Return the installed files that it copies unchanged: target and source."""
        return {}

    def folders(self) -> tuple[pathlib.Path, ...]:
        """Return the folders that must exist before it starts."""
        return (self.data,)

    @abc.abstractmethod
    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        """Return the commands that fill its empty databases."""

    @abc.abstractmethod
    def processes(self) -> tuple[Process, ...]:
        """Return its processes, in the order of their start."""

    def stored(self) -> tuple[pathlib.Path, ...]:
        """Return the folders that belong to its databases, for a snapshot."""
        return ()

    def settle(self, database: Database) -> None:  # noqa: B027 - most need nothing
        """Finish the set-up after its processes have started, or its tables were reset."""

    def api(
        self,
        module: str,
        workers: int = 1,
        arguments: tuple[str, ...] = (),
        stage: Stage = Stage.API,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Return the process of a WSGI application."""
        port = self.place.port(self.name)
        return Process(
            f'{self.name}-api',
            (str(self.venv.python), str(SERVE), module, str(port), str(workers), '8', *arguments),
            stage,
            {
                # Most of these applications take no argument, only their own variables.
                f'OS_{self.name.upper()}_CONFIG_DIR': str(self.etc),
                **(environment or {}),
            },
            (*self.files(), self.versions),
            port=port,
            url=self.place.url(self.name),
        )

    def daemon(
        self,
        name: str,
        program: str,
        config: pathlib.Path,
        stage: Stage = Stage.CONTROL,
        ready_text: str = '',
    ) -> Process:
        """Return a process that is not an HTTP server."""
        return Process(
            name,
            (*self.venv.script(program), '--config-file', str(config)),
            stage,
            config=(config, self.versions),
            ready_text=ready_text,
        )
