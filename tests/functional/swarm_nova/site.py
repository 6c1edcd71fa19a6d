"""Site of a Swarm on the real Nova: another backend, and another kind of machine."""

import os

from tests.functional.cloud import clean_cloud
from tests.functional.swarm.site import SwarmSite
from tests.functional.swarm_nova.bodies import Bodies, Cloud, Wire

#: The image of the containers that run as servers.
BODY = 'kiln/swarm-node:latest'
FULL = bool(os.environ.get('KILN_FULL'))
EAST = """
[compute:east]
driver = nova
auth_url = {auth_url}
username = {username}
password = {password}
project_name = {project_name}
user_domain_name = {user_domain_name}
project_domain_name = {project_domain_name}
valid_interfaces = public
flavor = small
networks = {network}
watch_interval = 0.5
"""


class NovaSwarmSite(SwarmSite):
    """A cluster whose nodes are servers of a project, run as containers of an engine."""

    managers, workers = (3, 3) if FULL else (1, 2)
    kind = 'vm'

    @classmethod
    def configuration(cls):
        text = super().configuration()
        cls.site = clean_cloud()
        cls.cloud = Cloud(cls.site.session())
        cls.image = f'debian-{cls.owner}'
        cls.cloud.add_image(cls.image, os_distro='debian')
        cls.wire = Wire(cls.cloud, cls.bare, cls.owner)
        cls.bodies = cls.enterClassContext(Bodies(cls.cloud, cls.bare, cls.wire, BODY))
        east = EAST.format(network=cls.wire.id, **cls.site.auth('kiln-user'))
        return text.replace('= containers', '= east') + east

    @classmethod
    def containers(cls):
        return list(cls.bodies.machines().values())

    def container_of(self, node):
        return self.bodies.machines().get(node.compute_id)

    @classmethod
    def remove_what_is_left(cls):
        # Their containers are removed with them, or at the latest with the site.
        for server_id in cls.cloud.servers():
            cls.cloud.delete_server(server_id)

    def assert_agreed(self, managers=None, workers=None):
        # Nova reports that a server is gone before its container is removed.
        self.until(
            lambda: self.bodies.machines().keys() == self.cloud.servers().keys(),
            'there are servers without a machine, or machines without a server',
        )
        super().assert_agreed(managers, workers)
        servers = self.cloud.servers()
        self.assertEqual({one.compute_id for one in self.nodes().values()}, servers.keys())
        self.assertEqual({'ACTIVE'}, {one['status'] for one in servers.values()})
