"""Where an engine lives: its folders, its socket, its networks."""

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
    """Return the folder that KILN_ENGINE_HOME names, or one among the user's state."""
    return command.default_home('KILN_ENGINE_HOME', 'kiln-devengine', environ)


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders and names of one engine; several may live side by side."""

    home: pathlib.Path
    kind: str

    def __post_init__(self) -> None:
        if len(str(self.home)) > LONGEST_HOME:
            raise EngineError(f'{self.home}: a home of more than {LONGEST_HOME} characters')

    @property
    def root(self) -> pathlib.Path:
        """All that belongs to this engine but its socket."""
        return self.home / self.kind

    @property
    def data(self) -> pathlib.Path:
        """Images, containers, volumes: what is lost by a wipe."""
        return self.root / 'data'

    @property
    def run(self) -> pathlib.Path:
        """What is of no use once the engine has ended."""
        return self.root / 'run'

    @property
    def etc(self) -> pathlib.Path:
        """Configuration, rewritten at each start."""
        return self.root / 'etc'

    @property
    def log(self) -> pathlib.Path:
        """What the engine says."""
        return self.root / 'engine.log'

    @property
    def pid_file(self) -> pathlib.Path:
        """The process that was started here, and with what."""
        return self.root / 'running.json'

    @property
    def socket(self) -> pathlib.Path:
        """Where the engine listens."""
        return self.home / f'{self.kind}.sock'

    @property
    def url(self) -> str:
        """The address of the engine."""
        return f'unix://{self.socket}'

    @property
    def digest(self) -> str:
        """What tells this engine from all others of the machine."""
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
        """What containers get where no network is named."""
        return f'172.31.{100 + self.number}.0/24'

    @property
    def pool(self) -> str:
        """What further networks are cut out of, 256 addresses each."""
        return f'10.{100 + self.number}.0.0/16'
