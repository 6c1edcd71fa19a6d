"""The three servers below OpenStack: MariaDB, RabbitMQ and memcached."""

import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable

from . import packages
from .errors import CloudError
from .place import HOST, Place
from .processes import Process, Supervisor, listens, until
from .settings import write

# Seconds, enough for a busy machine; the death of a process is noticed at once.
READY_S = 300.0
BACKENDS = frozenset({'rabbit', 'epmd', 'mariadb', 'memcached'})


def _await(name: str, ready: Callable[[], bool], supervisor: Supervisor) -> None:
    until(ready, lambda: supervisor.death(name), READY_S, name, supervisor.log(name))


class Database:
    """The cloud's MariaDB; it listens on a socket file alone."""

    def __init__(self, place: Place):
        self._place = place
        self._client = ('mariadb', '--no-defaults', '-uroot', f'--socket={place.socket}')

    def query(self, sql: str) -> list[list[str]]:
        """Run statements in one session; return the rows of their results."""
        if not self._place.socket.exists():
            # Its client might not be installed before the first start.
            raise CloudError('mariadb does not run: "up" starts it')
        done = subprocess.run(
            [*self._client, '--batch', '--skip-column-names'],
            input=sql,
            text=True,
            capture_output=True,
            env=self._place.environment(),
            check=False,
        )
        if done.returncode:
            raise CloudError(f'mariadb: {done.stderr.strip()}')
        return [line.split('\t') for line in done.stdout.splitlines()]

    def count(self, sql: str) -> int:
        """Return the number that a query returns."""
        return int(self.query(sql)[0][0])

    def create(self, names: Iterable[str]) -> None:
        """Create the missing databases."""
        for name in names:
            self.query(f'create database if not exists `{name}` character set utf8mb3')

    def start(self, supervisor: Supervisor) -> None:
        """Start the server; create its data folder if it does not exist."""
        data = self._place.data / 'mysql'
        user = 'root' if os.geteuid() == 0 else os.environ['USER']
        if not data.is_dir():
            # An interrupted set-up must not be taken for a database later.
            fresh = data.with_name('mysql.new')
            shutil.rmtree(fresh, ignore_errors=True)
            packages.run(
                self._place,
                'mariadb',
                *('mariadb-install-db', '--no-defaults', f'--datadir={fresh}', f'--user={user}'),
                *('--auth-root-authentication-method=normal', '--skip-test-db'),
                '--skip-name-resolve',
            )
            fresh.rename(data)
        supervisor.start(Process('mariadb', self._command(data, user)))
        _await('mariadb', self._answers, supervisor)

    def _command(self, data: pathlib.Path, user: str) -> tuple[str, ...]:
        return (
            *('/usr/sbin/mariadbd', '--no-defaults', f'--user={user}', f'--datadir={data}'),
            *(f'--socket={self._place.socket}', '--skip-networking', '--skip-name-resolve'),
            f'--pid-file={self._place.run / "mariadb.own"}',
            # The data need not survive a loss of power, so nothing waits for the disk.
            *('--innodb-flush-log-at-trx-commit=0', '--innodb-doublewrite=0'),
            *('--innodb-flush-method=O_DIRECT_NO_FSYNC', '--skip-log-bin'),
            *('--innodb-buffer-pool-size=512M', '--innodb-log-file-size=128M'),
            *('--max-connections=1000', '--performance-schema=off'),
            *('--character-set-server=utf8mb3', '--default-time-zone=+00:00'),
        )

    def _answers(self) -> bool:
        try:
            return bool(self.query('select 1'))
        except CloudError:
            return False


def start_rabbit(place: Place, supervisor: Supervisor) -> None:
    """Start RabbitMQ with a port mapper of its own, both on the loopback alone."""
    folder = place.data / 'rabbit'
    write(
        folder / 'rabbitmq.conf',
        f'listeners.tcp.1 = {HOST}:{place.port("rabbit")}\n'
        'loopback_users.guest = true\n'
        'log.console = true\nlog.console.level = warning\nlog.file = false\n'
        'disk_free_limit.absolute = 50MB\nvm_memory_high_watermark.absolute = 1GB\n'
        'heartbeat = 0\n',
    )
    write(folder / 'enabled_plugins', '[].\n')
    write(folder / 'env', '')
    mapper = ('epmd', '-address', HOST, '-port', str(place.port('epmd')))
    supervisor.start(Process('epmd', mapper, port=place.port('epmd')))
    # Else RabbitMQ starts a port mapper of its own, and one of the two dies.
    _await('epmd', lambda: listens(place.port('epmd')), supervisor)
    supervisor.start(
        Process(
            'rabbit',
            ('/usr/lib/rabbitmq/bin/rabbitmq-server',),
            environment=_rabbit_environment(place, folder),
            port=place.port('rabbit'),
        )
    )
    _await('rabbit', lambda: listens(place.port('rabbit')), supervisor)


def _rabbit_environment(place: Place, folder: pathlib.Path) -> dict[str, str]:
    return {
        'HOME': str(folder),
        'RABBITMQ_NODENAME': f'kiln{place.base_port}@localhost',
        'RABBITMQ_CONF_ENV_FILE': str(folder / 'env'),
        'RABBITMQ_CONFIG_FILE': str(folder / 'rabbitmq'),
        'RABBITMQ_ENABLED_PLUGINS_FILE': str(folder / 'enabled_plugins'),
        'RABBITMQ_GENERATED_CONFIG_DIR': str(folder),
        'RABBITMQ_LOG_BASE': str(folder / 'log'),
        'RABBITMQ_LOGS': '-',
        'RABBITMQ_MNESIA_BASE': str(folder / 'mnesia'),
        'RABBITMQ_PID_FILE': str(folder / 'own.pid'),
        'RABBITMQ_DIST_PORT': str(place.port('rabbit_peers')),
        # Idle schedulers of Erlang spin by default, which would occupy a core.
        'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': '+S 2:2 +sbwt none +sbwtdcpu none '
        '+sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}',
        'ERL_EPMD_ADDRESS': HOST,
        'ERL_EPMD_PORT': str(place.port('epmd')),
    }


def start_memcached(place: Place, supervisor: Supervisor) -> None:
    """Start memcached, where tokens are cached."""
    user = ('-u', 'root') if os.geteuid() == 0 else ()
    port = place.port('memcached')
    listen = ('-l', HOST, '-p', str(port), '-U', '0')
    command = ('memcached', *user, *listen, '-m', '64', '-t', '2')
    supervisor.start(Process('memcached', command, port=port))
    _await('memcached', lambda: listens(port), supervisor)


def flush_memcached(place: Place) -> None:
    """Clear the cache."""
    with socket.create_connection((HOST, place.port('memcached')), timeout=5) as connection:
        connection.sendall(b'flush_all\r\n')
        connection.recv(64)
