"""Location of an engine: its folders, its socket, its networks."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping

from tools import command

from .errors import EngineError

# A socket's path must fit in 108 bytes.
LONGEST_HOME = 80
#: Engines side by side need networks of their own: so many have them.
NUMBERS = 100


def default_home(environ: Mapping[str, str] = os.environ) -> pathlib.Path:
    """Return the folder that KILN_ENGINE_HOME names, or one in the user's state."""
    return command.default_home('KILN_ENGINE_HOME', 'kiln-devengine', environ)


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders and names of one engine; several can exist side by side."""

    home: pathlib.Path
    kind: str

    def __post_init__(self) -> None:
        if len(str(self.home)) > LONGEST_HOME:
            raise EngineError(f'{self.home}: a home of more than {LONGEST_HOME} characters')

    @property
    def root(self) -> pathlib.Path:
        """All files of this engine but its socket."""
        return self.home / self.kind

    @property
    def data(self) -> pathlib.Path:
        """Images, containers, volumes: all that a wipe deletes."""
        return self.root / 'data'

    @property
    def run(self) -> pathlib.Path:
        """Files that are useless once the engine has ended."""
        return self.root / 'run'

    @property
    def etc(self) -> pathlib.Path:
        """Configuration, rewritten at each start."""
        return self.root / 'etc'

    @property
    def log(self) -> pathlib.Path:
        """The log of the engine."""
        return self.root / 'engine.log'

    @property
    def pid_file(self) -> pathlib.Path:
        """The record of the process that was started here."""
        return self.root / 'running.json'

    @property
    def socket(self) -> pathlib.Path:
        """The socket of the engine."""
        return self.home / f'{self.kind}.sock'

    @property
    def url(self) -> str:
        """The address of the engine."""
        return f'unix://{self.socket}'

    @property
    def digest(self) -> str:
        """A tag that identifies this engine on the machine."""
        return hashlib.sha256(str(self.root).encode()).hexdigest()[:8]

    @property
    def bridge(self) -> str:
        """The bridge of its first network."""
        return f'kiln{self.digest}'

    @property
    def first_number(self) -> int:
        """The number to look at first for free networks."""
        return int(self.digest, 16) % NUMBERS


@dataclasses.dataclass(frozen=True)
class Networks:
    """The addresses of one engine."""

    number: int

    @property
    def gateway(self) -> str:
        """The address of the bridge."""
        return f'172.31.{100 + self.number}.1'

    @property
    def subnet(self) -> str:
        """The default subnet of containers."""
        return f'172.31.{100 + self.number}.0/24'

    @property
    def pool(self) -> str:
        """The pool for further networks of 256 addresses each."""
        return f'10.{100 + self.number}.0.0/16'
