"""Server of one WSGI application, with threads that keep connections alive.

usage: serve.py MODULE PORT PROCESSES THREADS [ARGUMENT of the application ...]
"""

import importlib
import sys
import threading

from gunicorn.app.base import BaseApplication

module, port, processes, threads = sys.argv[1], *map(int, sys.argv[2:5])
arguments = sys.argv[5:]


class FirstAlone:
    """WSGI application that serves its first request with a token alone.

    Neutron reads its policy during that request, and reports to concurrent requests
    that no network exists.
    """

    def __init__(self, application):
        self._application = application
        self._first = threading.Lock()
        self._served = False

    def __call__(self, environ, start_response):
        """Serve a request."""
        if self._served or 'HTTP_X_AUTH_TOKEN' not in environ:
            return self._application(environ, start_response)
        with self._first:
            answer = self._application(environ, start_response)
            self._served = True
        return answer


class Application(BaseApplication):
    """Gunicorn's hooks: settings, and how to load the application."""

    def load_config(self):
        """Set what differs from gunicorn's defaults."""
        for name, value in {
            'bind': f'127.0.0.1:{port}',
            'workers': processes,
            'threads': threads,
            'worker_class': 'gthread',
            'keepalive': 75,
            'timeout': 300,
            'graceful_timeout': 3,
            'backlog': 2048,
            'proc_name': module,
            'worker_tmp_dir': '/dev/shm',
            'limit_request_line': 0,
            'limit_request_field_size': 0,
            'control_socket_disable': True,
        }.items():
            # Older releases lack some of these, and behave like that anyway.
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self):
        """Import the application, which reads the command line as its own."""
        sys.argv = [f'{module.split(".")[0]}-api', *arguments]
        return FirstAlone(importlib.import_module(module).application)


Application().run()
