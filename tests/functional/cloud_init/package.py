"""The real cloud-init, from packages of Debian or a derivative; it is not on PyPI."""

import atexit
import base64
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

_READER = pathlib.Path(__file__).with_name('reader.py')
#: The Python that the packages were made for, if it is installed.
_PYTHON = shutil.which('python3', path='/usr/bin') or sys.executable
_DEPENDS = (
    'apt-cache', 'depends', '--recurse', '--no-recommends', '--no-suggests', '--no-conflicts',
    '--no-breaks', '--no-replaces', '--no-enhances', 'cloud-init',
)  # fmt: skip


class CloudInit:
    """cloud-init unpacked into a folder, without installation, which reads user data."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        home = pathlib.Path(self._folder.name)
        # apt drops its privileges to a user of its own, which must be able to write there.
        home.chmod(0o777)
        try:
            self._fetch(home)
        except BaseException:
            self._folder.cleanup()
            raise
        self._process = subprocess.Popen(
            [_PYTHON, '-I', '-S', _READER, home / 'usr/lib/python3/dist-packages'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        #: The versions of cloud-init and its Python.
        self.about = self._answer()

    def _fetch(self, home):
        if not _output(_DEPENDS, home):
            # A new machine has no package lists.
            _run(('apt-get', 'update'), home)
        depends = _run(_DEPENDS, home)
        packages = re.findall(r'^(cloud-init|python3-[\w.+-]+)$', depends, re.MULTILINE)
        _run(('apt-get', '-q', 'download', *packages), home)
        for package in home.glob('*.deb'):
            _run(('dpkg', '-x', package.name, '.'), home)

    def read(self, user_data):
        """Return what cloud-init reads from user data."""
        self._process.stdin.write(base64.b64encode(user_data).decode() + '\n')
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f'cloud-init has ended with {self._process.wait()}')
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


@functools.cache
def cloud_init():
    """Return the cloud-init of this test run; fetching it takes seconds."""
    fetched = CloudInit()
    atexit.register(fetched.close)
    return fetched


def read(user_data):
    """Return what cloud-init reads from user data; fail if it logs a warning."""
    found = cloud_init().read(user_data)
    if 'error' in found or found['complaints']:
        raise AssertionError(found.get('error') or found['complaints'])
    return found


def content(found, path):
    """Return what cloud-init has written at a path."""
    return base64.b64decode(found['files'][path]['content'])


def _output(command, home):
    try:
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise AssertionError(
            f'{command[0]} is missing: these tests need Debian, or what descends from it'
        ) from None
    return done.stdout if done.returncode == 0 else ''


def _run(command, home):
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f'{" ".join(map(str, command))} failed: {done.stderr}')
    return done.stdout
