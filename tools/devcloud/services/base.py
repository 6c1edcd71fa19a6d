"""What a service of the cloud says about itself."""

import abc
import dataclasses
import pathlib
from collections.abc import Mapping

from ..packages import HERE, Venv
from ..place import Place
from ..processes import Process, Stage
from ..settings import Sections, Setting

SERVE = HERE / 'inside' / 'serve.py'
SERVER_PACKAGES = ('gunicorn', 'pymemcache', 'pymysql', 'python-memcached')


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the user wants of a cloud."""

    services: tuple[str, ...] = ()
    hosts: int = 3
    settings: tuple[Setting, ...] = ()
    octavia_packages: tuple[str, ...] = ()


class Service(abc.ABC):
    """A description; the engine (cloud.py) does what it says."""

    name: str
    requirements: tuple[str, ...]
    databases: tuple[str, ...]
    venv_name = 'venv'
    needs_seed = False  # its configuration names things that the seed makes

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

    @abc.abstractmethod
    def files(self) -> Mapping[pathlib.Path, Sections]:
        """Return its configuration files."""

    def copies(self) -> Mapping[pathlib.Path, pathlib.Path]:
        """Return the files it takes as they were installed: target and source."""
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

    def api(
        self,
        module: str,
        workers: int = 1,
        arguments: tuple[str, ...] = (),
        stage: Stage = Stage.API,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Return the process of a WSGI application."""
        port = str(self.place.port(self.name))
        return Process(
            f'{self.name}-api',
            (str(self.venv.python), str(SERVE), module, port, str(workers), '8', *arguments),
            stage,
            {
                # Most of these applications take no argument, only their own variables.
                f'OS_{self.name.upper()}_CONFIG_DIR': str(self.etc),
                **(environment or {}),
            },
            (*self.files(), self.venv.stamp),
            url=self.place.url(self.name),
        )

    def daemon(
        self, name: str, program: str, config: pathlib.Path, stage: Stage = Stage.CONTROL
    ) -> Process:
        """Return a process that is not an HTTP server."""
        return Process(
            name,
            (str(self.venv.program(program)), '--config-file', str(config)),
            stage,
            config=(config, self.venv.stamp),
        )
