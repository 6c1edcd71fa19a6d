"""ZooKeeper, etcd and Redis servers of this test run, on free loopback ports."""

import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from kiln.engine.work_sources.opening import NO_FILES, TlsFiles
from tests.certificates import Authority

PATIENCE_S = 300
#: Where Debian's package keeps its parts.
ZOOKEEPER_JAR = pathlib.Path('/usr/share/java/zookeeper.jar')
#: Needed for TLS, but not named by the package.
NETTY = '/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar'


def program(name, package):
    """Return the path of a program."""
    found = shutil.which(name)
    if found is None:
        raise AssertionError(f'{name} is missing; install the package {package}')
    return found


def free_port():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        return free.getsockname()[1]


class BoardServer:
    """A server in a directory of its own, which can be stopped and started again."""

    def __init__(self):
        self._home = tempfile.TemporaryDirectory(prefix='kiln-board-')
        self.folder = pathlib.Path(self._home.name)
        self.port = free_port()
        self._process = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self):
        return f'{self.kind}://127.0.0.1:{self.port}/kiln'

    def start(self):
        with (self.folder / 'log').open('a') as log:
            self._process = subprocess.Popen(
                [str(word) for word in self.command()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        give_up = time.monotonic() + PATIENCE_S
        while not self.answers():
            if time.monotonic() > give_up or self._process.poll() is not None:
                log = (self.folder / 'log').read_text()[-2000:]
                raise AssertionError(f'{self.kind} does not start: {log}')
            time.sleep(0.05)

    def answers(self):
        """Return whether it serves; an open port can be too early."""
        try:
            with self.connection() as asked:
                asked.sendall(self.question)
                return self.answer in asked.recv(1024)
        except OSError:
            return False

    def connection(self):
        return socket.create_connection(('127.0.0.1', self.port), 1.0)

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def close(self):
        self.stop()
        self._home.cleanup()


class ZookeeperServer(BoardServer):
    kind = 'zookeeper'
    question, answer = b'srvr', b'Mode: standalone'
    files = NO_FILES

    def listening(self):
        """Return the configuration lines of its listeners."""
        return f'clientPort={self.port}\nclientPortAddress=127.0.0.1\n'

    def command(self):
        java = program('java', 'zookeeper')
        if not ZOOKEEPER_JAR.exists():
            raise AssertionError(f'{ZOOKEEPER_JAR} is missing; install the package zookeeper')
        # Its shortest session is two ticks.
        (self.folder / 'zoo.cfg').write_text(
            f'tickTime=500\ndataDir={self.folder / "data"}\n{self.listening()}'
            f'admin.enableServer=false\nforceSync=no\nmaxSessionTimeout=120000\n'
        )
        # As small as possible: two cores serve three boards and their users.
        return (
            java, '-Xmx96m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1',
            f'-Djava.io.tmpdir={self.folder}', '-cp', f'{self.folder}:{ZOOKEEPER_JAR}:{NETTY}',
            'org.apache.zookeeper.server.quorum.QuorumPeerMain', self.folder / 'zoo.cfg',
        )  # fmt: skip


class SafeZookeeperServer(ZookeeperServer):
    """A ZooKeeper with TLS only, which authenticates clients by certificate."""

    kind = 'zookeepers'

    def listening(self):
        authority = Authority(self.folder)
        server, key = authority.issue('server')
        store = self.folder / 'store.pem'
        store.write_bytes(key.read_bytes() + server.read_bytes())
        certificate, secret = authority.issue('conductor')
        self.files = TlsFiles(ca=str(authority.ca), cert=str(certificate), key=str(secret))
        return (
            f'secureClientPort={self.port}\nsecureClientPortAddress=127.0.0.1\n'
            f'serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n'
            f'ssl.keyStore.location={store}\nssl.keyStore.type=PEM\n'
            f'ssl.trustStore.location={authority.ca}\nssl.trustStore.type=PEM\n'
        )

    def connection(self):
        context = ssl.create_default_context(cafile=self.files.ca)
        context.load_cert_chain(self.files.cert, self.files.key)
        return context.wrap_socket(super().connection(), server_hostname='127.0.0.1')


class EtcdServer(BoardServer):
    kind = 'etcd'
    question, answer = b'GET /health HTTP/1.0\r\n\r\n', b'"true"'

    def __init__(self):
        self._peers = free_port()
        super().__init__()

    def command(self):
        here = f'http://127.0.0.1:{self.port}'
        peers = f'http://127.0.0.1:{self._peers}'
        return (
            program('etcd', 'etcd-server'), '--data-dir', self.folder / 'data',
            '--listen-client-urls', here, '--advertise-client-urls', here,
            '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers,
            '--initial-cluster', f'default={peers}',
        )  # fmt: skip


class RedisServer(BoardServer):
    kind = 'redis'
    question, answer = b'PING\r\n', b'+PONG'

    def command(self):
        return (
            program('redis-server', 'redis-server'), '--port', self.port, '--bind', '127.0.0.1',
            '--dir', self.folder, '--save', '', '--appendonly', 'no',
        )  # fmt: skip


SERVERS = (ZookeeperServer, EtcdServer, RedisServer)
