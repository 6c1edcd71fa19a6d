"""Docker's own suites on an engine in memory, which judge mutants beside the kit.

Name them before ``tests.unit.compute_drivers.docker``. Together they are all that kiln has for
this driver, but for what only a real engine can show: health checks, ssh, TLS, and a restart of
the engine.
"""

import tests.unhurried  # noqa: F401  # before tests with examples
from tests.functional.docker import test_driver, test_restarts
from tests.functional.docker.mutants import SimulatedCase


class InMemory(SimulatedCase):
    """Reads in memory what commands print in a container."""

    def said_in(self, container_id, *command):
        files = self.place.engine.container(container_id).files
        if command[0] == 'cat':
            return files[command[1]][1].decode()
        assert command[:3] == ('stat', '-c', '%a %u %g %n'), command
        members = ((path, files[path][0]) for path in command[3:])
        return ''.join(
            f'{member.mode:o} {member.uid} {member.gid} {path}\n' for path, member in members
        )


class OwnContent(InMemory, test_driver.Content):
    pass


class OwnShapes(InMemory, test_driver.Shapes):
    # They need the ports of a host, and programs that do not run.
    test_a_port_of_the_host_is_published_once = None
    test_an_image_with_an_invalid_command_leaves_nothing = None


class OwnOwnership(InMemory, test_driver.Ownership):
    pass


class OwnStates(InMemory, test_driver.States):
    pass


class OwnEvents(InMemory, test_driver.Events):
    pass


class OwnCrashes(InMemory, test_driver.Crashes):
    pass


class OwnAddresses(InMemory, test_restarts.Addresses):
    pass
