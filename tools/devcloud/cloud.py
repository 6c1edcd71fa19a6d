"""Engine of the cloud: installs, starts, resets and stops the described services."""

import concurrent.futures
import functools
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence

from . import packages
from .backends import BACKENDS, Database, start_memcached, start_rabbit
from .clients import clouds_yaml
from .errors import CloudError
from .golden import Golden
from .place import Place
from .processes import Process, Stage, Supervisor, until
from .services import CORE, OPTIONAL, Service
from .settings import apply, render, write
from .steps import Steps
from .wishes import Wishes

READY_S = 180.0


def in_parallel(calls: Iterable[Callable[[], object]]) -> None:
    """Run calls side by side; raise the first error when all have ended."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()


def answers(url: str) -> bool:
    """Return True if the service behind an address works, as far as can be seen."""
    try:
        with urllib.request.urlopen(url, timeout=20):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


class Cloud:
    """One cloud at one place."""

    def __init__(self, place: Place, wishes: Wishes, say: Callable[[str], None]):
        kinds = (*CORE, *(kind for kind in OPTIONAL if kind.name in wishes.services))
        self._services = tuple(kind(place, wishes) for kind in kinds)
        self._place = place
        self._wishes = wishes
        self._say = say
        self._database = Database(place)
        self._steps = Steps(place.data)
        self._golden = Golden(place, self._database, self._services)
        self.supervisor = Supervisor(place)

    def up(self) -> None:
        """Start everything that is not running; return once all of it works."""
        self._install()
        in_parallel(
            (
                functools.partial(self._database.start, self.supervisor),
                functools.partial(start_rabbit, self._place, self.supervisor),
                functools.partial(start_memcached, self._place, self.supervisor),
            )
        )
        self._say('backends answer')
        self._bring([service for service in self._services if not service.needs_seed])
        zones = [f'zone {number + 1}' for number in range(self._wishes.hosts)]
        self._seed(['contents', *zones])
        late = [service for service in self._services if service.needs_seed]
        self._seed([f'{service.name} {self._place.seeded}' for service in late])
        self._bring(late)
        if self._steps.unsaved:
            self.snapshot()

    def down(self, names: Sequence[str] = ()) -> None:
        """End processes: those named, or all."""
        ending = names or self.supervisor.names()
        for wave in (set(ending) - BACKENDS, BACKENDS & set(ending)):
            in_parallel(functools.partial(self.supervisor.stop, name) for name in wave)

    def wipe(self) -> None:
        """Delete everything but the virtual environments."""
        self.down()
        place = self._place
        for folder in (place.data, place.etc, place.log, place.run, place.plugins):
            shutil.rmtree(folder, ignore_errors=True)
        place.wishes.unlink(missing_ok=True)

    def snapshot(self) -> None:
        """Keep the present state as the one to which a reset returns."""
        self._golden.take()
        self._steps.saved()
        self._say('snapshot taken')

    def reset(self) -> None:
        """Return to the snapshot while everything runs."""
        passes = self._golden.restore()
        self._say(f'reset in {passes} passes')

    def _install(self) -> None:
        place = self._place
        for folder in (place.etc, place.log, place.run, place.data):
            folder.mkdir(parents=True, exist_ok=True)
        # Databases of other versions would need migrations; new ones are made in a minute.
        versions = f'versions {packages.versions()}'
        if (done := self._steps.done()) and versions not in done:
            raise CloudError('constraints.txt has changed since: first "down --wipe"')
        self._steps.mark([] if done else [versions])
        self._wishes.save(place.wishes)
        of_debian = dict(one for service in self._services for one in service.debian.items())
        packages.install_debian(place, of_debian, self._say)
        venvs = {service.venv_name: service.venv for service in self._services}
        for name, venv in venvs.items():
            of_one = [service for service in self._services if service.venv_name == name]
            wanted = {text for service in of_one for text in service.requirements}
            # The shell of `env` uses the programs of the first one.
            if name == Service.venv_name:
                wanted.update(text for service in self._services for text in service.clients)
            venv.install(wanted, self._say)
        packages.install_plugins(place, venvs[Service.venv_name])
        write(place.clouds_yaml, clouds_yaml(place))
        self._say('installed')

    def _bring(self, services: Sequence[Service]) -> None:
        if not services:
            return
        for service in services:
            self._configure(service)
        names = [name for service in services for name in service.databases]
        self._database.create(names)
        self._say(f'configuring {" ".join(service.name for service in services)}')
        in_parallel(functools.partial(self._make_schema, service) for service in services)
        processes = [process for service in services for process in service.processes()]
        for stage in Stage:
            if stage is Stage.CONTROL:
                self._seed_identity()
            self._start([process for process in processes if process.stage is stage])
        for service in services:
            service.settle(self._database)

    def _configure(self, service: Service) -> None:
        for folder in service.folders():
            folder.mkdir(parents=True, exist_ok=True)
        for path, sections in service.files().items():
            write(path, render(apply(sections, self._wishes.settings, service.name)))
        for target, source in service.copies().items():
            write(target, source.read_text())

    def _make_schema(self, service: Service) -> None:
        # Not all of these can be repeated, so each is recorded separately.
        steps = {f'schema {service.name} {n}': step for n, step in enumerate(service.schema())}
        if missing := steps.keys() - self._steps.done():
            for step in sorted(missing):
                packages.run(self._place, service.name, *steps[step])
                self._steps.mark([step])
            self._say(f'schema {service.name}')

    def _seed_identity(self) -> None:
        of_services = [
            f'service {service.name} {service.catalog[0]} '
            f'{self._place.url(service.name)}{service.catalog[1]}'
            for service in self._services
            if service.catalog
        ]
        self._seed(['identity', *of_services])

    def _seed(self, tasks: Sequence[str]) -> None:
        done = self._steps.done()
        if missing := [task for task in tasks if task not in done]:
            packages.run(
                self._place,
                'seed',
                self._services[0].venv.python,
                packages.HERE / 'inside' / 'seed.py',
                *missing,
                OS_CLIENT_CONFIG_FILE=str(self._place.clouds_yaml),
            )
            self._steps.mark(missing)
            self._say(f'seeded {missing[0]}')

    def _start(self, processes: Sequence[Process]) -> None:
        for process in processes:
            self.supervisor.start(process)
        for process in processes:
            until(
                functools.partial(self._ready, process),
                functools.partial(self.supervisor.death, process.name),
                READY_S,
                process.name,
                self.supervisor.log(process.name),
            )
        if processes:
            self._say(f'{" ".join(process.name for process in processes)}: ready')

    def _ready(self, process: Process) -> bool:
        if process.url:
            return answers(process.url)
        return self.supervisor.said(process.name, process.ready_text)
