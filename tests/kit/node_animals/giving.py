"""Drivers that give nodes the wrong data: by place, by time, by other nodes."""

import datetime
import functools
import os
import pathlib
import socket

from kiln.cluster_drivers.values import Bootstrap, join_token
from tests.kit.cluster_animals import Right


def given(text):
    return Bootstrap(user_data=text.encode())


class Homely(Right):
    """Depends on the environment."""

    def bootstrap(self, context, cluster, node):
        return given(os.environ.get('HOME', ''))


class Wandering(Right):
    """Depends on the working directory."""

    def bootstrap(self, context, cluster, node):
        return given(os.getcwd())


class Local(Right):
    """Depends on the host that kiln runs on."""

    def bootstrap(self, context, cluster, node):
        return given(socket.gethostname())


class Dated(Right):
    """Depends on the day."""

    def bootstrap(self, context, cluster, node):
        return given(str(datetime.date.today()))


class Counting(Right):
    """Depends on how many nodes there are now."""

    def bootstrap(self, context, cluster, node):
        return given(f'{len(context.nodes)} nodes')


class Planning(Right):
    """Depends on the count of the group, which changes."""

    def bootstrap(self, context, cluster, node):
        return given(f'{context.group(cluster, node.group).shape.count} nodes')


class Generational(Right):
    def bootstrap(self, context, cluster, node):
        return given(f'generation {cluster.generation}')


class Caching(Right):
    """Remembers the first answer of a cluster, for all of its nodes."""

    def bootstrap(self, context, cluster, node):
        return given(named(cluster.id, node.name))


@functools.cache
def first_names():
    return {}


def named(cluster_id, name):
    return first_names().setdefault(cluster_id, name)


class Sharing(Right):
    """Gives every node the token of the oldest."""

    def bootstrap(self, context, cluster, node):
        return given(join_token(context, context.nodes[0]))


class Stale(Right):
    """Gives each attempt the token of the first."""

    def bootstrap(self, context, cluster, node):
        token = join_token(
            context,
            type(node)(
                id=node.id,
                cluster_id=node.cluster_id,
                group='',
                name='',
                place=node.place,
                backend='',
            ),
        )
        return Bootstrap(user_data=b'#', join_token=token)


class Generous(Right):
    """Gives each node the key from which all tokens are made."""

    def bootstrap(self, context, cluster, node):
        return given(context.join_key().hex())


class Roaming(Right):
    """Reads a file that does not belong to the driver."""

    def bootstrap(self, context, cluster, node):
        pathlib.Path('/etc/passwd').read_text()
        return given('#')
