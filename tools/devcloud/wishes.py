"""Options of `up`, stored from one run to the next."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable

from .errors import CloudError
from .settings import Setting

BASE_PORT = 10000
HOSTS = 3


@dataclasses.dataclass(frozen=True)
class Wishes:
    """The options of `up`; zero means not chosen."""

    base_port: int = 0
    services: tuple[str, ...] = ()
    hosts: int = 0
    settings: tuple[Setting, ...] = ()
    octavia_packages: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: pathlib.Path) -> 'Wishes':
        """Read what the last `up` was started with; empty if `up` has not run."""
        if not path.exists():
            return cls()
        text = json.loads(path.read_text())
        return cls(
            text['base_port'],
            tuple(text['services']),
            text['hosts'],
            tuple(Setting.parse(setting) for setting in text['settings']),
            tuple(text['octavia_packages']),
        )

    def save(self, path: pathlib.Path) -> None:
        """Write it for the next command."""
        text = dataclasses.asdict(self) | {'settings': [str(each) for each in self.settings]}
        path.write_text(json.dumps(text, indent=1) + '\n')

    def and_also(
        self,
        base_port: int | None = None,
        services: Iterable[str] = (),
        hosts: int | None = None,
        settings: Iterable[Setting] = (),
        octavia_packages: Iterable[str] = (),
    ) -> 'Wishes':
        """Return these options extended by more: a cloud never shrinks."""
        if self.base_port and base_port not in (None, self.base_port):
            raise CloudError(
                f'the ports of this cloud start at {self.base_port}, its catalogue names '
                'them: choose another --home, or take it "down --wipe" first'
            )
        by_option = {each.path: each for each in (*self.settings, *settings)}
        return dataclasses.replace(
            self,
            base_port=self.base_port or base_port or BASE_PORT,
            services=tuple(dict.fromkeys((*self.services, *services))),
            hosts=max(self.hosts, hosts or 0) or HOSTS,
            settings=tuple(by_option.values()),
            octavia_packages=tuple(dict.fromkeys((*self.octavia_packages, *octavia_packages))),
        )
