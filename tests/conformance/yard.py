"""A yard of machines on the loopback, for tests of pools.

A machine is a port that answers as long as a file says that it is on. Commands are
programs of the shell, which make and remove that file; they begin in a millisecond.
"""

import contextlib
import http.server
import pathlib
import socket
import threading
import types

#: Options that make a pool of them quick.
PATIENCE = types.MappingProxyType(
    {
        'probe_interval': 0.05, 'probe_start_interval': 0.02, 'probe_timeout': 2.0,
        'quarantine': 0.1, 'quarantine_max': 0.4, 'claim_timeout': 20.0, 'wipe_timeout': 20.0,
        'ready_timeout': 20.0,
    }
)  # fmt: skip


class Yard(contextlib.AbstractContextManager):
    """Machines that serve HTTP on ports of their own, in one thread for all."""

    def __init__(self, folder, count):
        self.folder = pathlib.Path(folder) / 'yard'
        self.folder.mkdir()
        self.names = [f'm{number:02}' for number in range(count)]
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        # What the commands do, a test may do otherwise: these files come first.
        brought = f'{self.folder}/$KILN_MACHINE.brought'
        self.claim = self.program(
            'claim',
            f'rm -rf {brought}; cp -r $KILN_FOLDER {brought}; '
            f'touch {self.folder}/$KILN_MACHINE.on',
        )
        self.wipe = self.program('wipe', f'rm -f {self.folder}/$KILN_MACHINE.on')
        self.reboot = self.program(
            'reboot',
            f'test -e {self.folder}/$KILN_MACHINE.on; '
            f'echo rebooted >> {self.folder}/$KILN_MACHINE.boots',
        )
        self.console = self.program(
            'console',
            f'cat {self.folder}/$KILN_MACHINE.boots 2> /dev/null || true; '
            'echo hello; echo I am $KILN_MACHINE',
        )

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self):
        return self._server.server_address[1]

    def program(self, name, body):
        path = self.folder / name
        fresh = path.with_suffix('.new')
        fresh.write_text(f'#!/bin/sh\nset -e\n{body}\n')
        fresh.chmod(0o755)
        # Replaced as a whole: a program that is open for writing cannot be run.
        fresh.replace(path)
        return path

    def is_on(self, name):
        return (self.folder / f'{name}.on').exists()

    def brought(self, name):
        """Return the files that the last claim command of a machine got, by their names."""
        folder = self.folder / f'{name}.brought'
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def turn(self, name, on):
        path = self.folder / f'{name}.on'
        path.touch() if on else path.unlink(missing_ok=True)

    def inventory(self, *, kind='bare_metal', more=''):
        """Return an inventory in which all are enrolled."""
        return (
            f'[defaults]\ntype = "{kind}"\n'
            f'claim = ["{self.claim}"]\nwipe = ["{self.wipe}"]\n'
            f'reboot = ["{self.reboot}"]\nrebuild = ["{self.claim}"]\n'
            f'console = ["{self.console}"]\n{more}'
        ) + ''.join(
            f'[machines.{name}]\naddresses = ["{name}.example"]\nzone = "az{number % 3}"\n'
            f'probe = {{http = "http://127.0.0.1:{self.port}/{name}"}}\n'
            for number, name in enumerate(self.names)
        )


def _handler(yard):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if yard.is_on(self.path.strip('/')) else 503)
            self.end_headers()

        def log_message(self, *_):
            pass

    return Handler


def free_port():
    """Return a port on which nobody listens."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]
