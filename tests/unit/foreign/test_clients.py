"""The list of the clients of the network has all of them; tests/functional/hostile judges each."""

import ast
import pathlib
import unittest

from tests.unit.foreign.clients import CLIENTS, COVERED, NO_CLIENT

ROOT = pathlib.Path(__file__).parents[3]
LIBRARIES = {
    'aiohttp', 'amqp', 'docker', 'http.client', 'httpx', 'kazoo', 'keystoneauth1', 'kombu',
    'novaclient', 'openstack', 'redis', 'requests', 'socket', 'ssl', 'taskflow',
    'urllib.request', 'urllib3',
}  # fmt: skip
#: What speaks to servers of its own making.
OWN = ('kiln.testing', 'kiln.cli.demo')


def imported(path):
    """Yield the names of all modules that a file imports, anywhere in it."""
    for one in ast.walk(ast.parse(path.read_text())):
        if isinstance(one, ast.Import):
            yield from (alias.name for alias in one.names)
        elif isinstance(one, ast.ImportFrom) and one.module and not one.level:
            yield one.module
            yield from (f'{one.module}.{alias.name}' for alias in one.names)


def talks(path):
    return any(
        name == library or name.startswith(f'{library}.')
        for name in imported(path)
        for library in LIBRARIES
    )


class Clients(unittest.TestCase):
    def test_a_list_of_clients_has_all_that_import_a_library_of_the_network(self):
        found = set()
        for path in (ROOT / 'kiln').rglob('*.py'):
            name = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
            if not name.startswith(OWN) and talks(path):
                found.add(name)
        self.assertEqual(found, COVERED.keys() | NO_CLIENT.keys())
        self.assertLessEqual(set(COVERED.values()), CLIENTS.keys())
