"""PostgreSQL and MariaDB servers of this test run, on free loopback ports."""

import atexit
import functools
import glob
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

import psycopg
import pymysql

PATIENCE_S = 300
PASSWORD = 'Tr0ub4dor-and-3-horses'


def program(name, package):
    """Return the path of a program; Debian keeps those of PostgreSQL by version."""
    places = [shutil.which(name, path=f'{os.environ["PATH"]}:/usr/sbin')]
    places += sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'), reverse=True)
    for place in filter(None, places):
        # Related programs are beside the real file, not beside a link to it.
        return pathlib.Path(place).resolve()
    raise AssertionError(f'{name} is missing; install the package {package}')


class Server:
    """A server in its own folder; ``url`` is that of an empty database."""

    def __init__(self, user):
        self._home = tempfile.TemporaryDirectory(prefix='kiln-db-')
        self.folder = pathlib.Path(self._home.name)
        # Both refuse to run as root.
        self._as = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, user)
            self._as = {'user': user, 'group': user, 'extra_groups': []}
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self._process = None
        try:
            self.prepare()
            self._process = self.spawn(*self.command())
            self._wait()
        except BaseException:
            self.close()
            raise

    def spawn(self, *command):
        with (self.folder / 'log').open('a') as log:
            return subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **self._as,
            )  # fmt: skip

    def run(self, *command):
        process = self.spawn(*command)
        if process.wait(PATIENCE_S):
            raise AssertionError(f'{command[0]} failed: {self.log()}')

    def log(self):
        return (self.folder / 'log').read_text()[-2000:]

    def _wait(self):
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.make_database()
                return
            except (psycopg.OperationalError, pymysql.err.OperationalError):
                if time.monotonic() > give_up or self._process.poll() is not None:
                    raise AssertionError(f'the server does not start: {self.log()}') from None
                time.sleep(0.05)

    def close(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
        self._home.cleanup()


class PostgresServer(Server):
    kind = 'postgresql'

    def __init__(self):
        self._bin = program('postgres', 'postgresql').parent
        super().__init__('postgres')
        self.url = f'postgresql://kiln:{PASSWORD}@127.0.0.1:{self.port}/kiln'

    def prepare(self):
        (self.folder / 'password').write_text(PASSWORD)
        self.run(
            self._bin / 'initdb', '--pgdata', self.folder / 'data', '--username', 'kiln',
            '--auth', 'scram-sha-256', '--pwfile', self.folder / 'password', '--no-sync',
            '--encoding', 'UTF8', '--no-locale',
        )  # fmt: skip

    def command(self):
        return (
            self._bin / 'postgres', '-D', self.folder / 'data', '-p', self.port,
            '-h', '127.0.0.1', '-k', self.folder, '-c', 'fsync=off',
        )  # fmt: skip

    def make_database(self):
        with psycopg.connect(
            host='127.0.0.1', port=self.port, user='kiln', password=PASSWORD,
            dbname='postgres', autocommit=True,
        ) as connection:  # fmt: skip
            connection.execute('CREATE DATABASE kiln')


class MariadbServer(Server):
    kind = 'mariadb'

    def __init__(self):
        self._server = program('mariadbd', 'mariadb-server')
        self._install = program('mariadb-install-db', 'mariadb-server')
        super().__init__('mysql')
        self.url = f'mariadb://kiln:{PASSWORD}@127.0.0.1:{self.port}/kiln'

    def prepare(self):
        # A server that starts removes what others have in a shared folder.
        self._spare = self.folder / 'tmp'
        self._spare.mkdir()
        if self._as:
            shutil.chown(self._spare, self._as['user'])
        self.run(
            self._install, '--no-defaults', f'--datadir={self.folder / "data"}',
            f'--tmpdir={self._spare}',
            '--auth-root-authentication-method=normal', '--skip-test-db',
        )  # fmt: skip

    def command(self):
        return (
            self._server, '--no-defaults', f'--datadir={self.folder / "data"}',
            f'--tmpdir={self._spare}',
            f'--port={self.port}', '--bind-address=127.0.0.1', f'--socket={self.folder / "sock"}',
            f'--pid-file={self.folder / "pid"}', '--skip-name-resolve',
            '--innodb-flush-log-at-trx-commit=0', '--innodb-buffer-pool-size=32M',
        )  # fmt: skip

    def make_database(self):
        connection = pymysql.connect(host='127.0.0.1', port=self.port, user='root')
        with connection, connection.cursor() as cursor:
            cursor.execute('CREATE DATABASE kiln')
            cursor.execute(f"CREATE USER kiln@'%' IDENTIFIED BY '{PASSWORD}'")
            cursor.execute("GRANT ALL ON kiln.* TO kiln@'%'")


@functools.cache
def shared(kind):
    """Return the server of a kind for this test run; it ends with the run."""
    server = kind()
    atexit.register(server.close)
    return server
