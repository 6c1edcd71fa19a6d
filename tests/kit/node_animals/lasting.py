"""Drivers that depend on earlier calls, say too much, or answer what nobody can show."""

from kiln.cluster_drivers.values import Bootstrap, Readiness, join_token
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import ClusterDriverError
from tests.kit.cluster_animals import Right


class Once(Right):
    """Refuses a hook that is called a second time."""

    def pre_create_cluster(self, context, cluster, operation):
        if getattr(self, 'prepared', False):
            raise ClusterDriverError('The network exists already.')
        self.prepared = True


class Remembering(Right):
    """Needs what an earlier hook has kept in memory."""

    def pre_update_cluster(self, context, cluster, operation):
        self.before = len(context.nodes)

    def post_update_cluster(self, context, cluster, operation):
        if not getattr(self, 'before', 0):
            raise ClusterDriverError('The update was never prepared.')


class Mourning(Right):
    """Cannot delete what is gone already."""

    def pre_delete_cluster(self, context, cluster, operation):
        if not context.nodes:
            raise ClusterDriverError('The cluster has no nodes to say goodbye to.')


class Forgetting(Right):
    """Needs to have validated the cluster in the same process."""

    validated = False

    def validate(self, context, cluster, plan):
        self.validated = True
        return super().validate(context, cluster, plan)

    def bootstrap(self, context, cluster, node):
        if not self.validated:
            raise ClusterDriverError('The cluster was never validated.')
        return Bootstrap()


class Confiding(Right):
    """Tells everybody the token with which a node joins."""

    def is_ready(self, context, cluster, node):
        return Readiness.not_yet(f'it has not joined with {join_token(context, node)}')


class Quoting(Right):
    """Quotes the secret that does not fit."""

    def bootstrap(self, context, cluster, node):
        secret = context.secrets.get('kit')
        if not secret.isascii():
            raise ClusterDriverError(f'The password {secret!r} cannot be used.')
        return Bootstrap(user_data=secret.encode())


def tokens(context, cluster, arguments):
    return {node.name: join_token(context, node) for node in context.nodes}


def machines(context, cluster, arguments):
    return {'machines': {node.compute_id for node in context.nodes}}


class Betraying(Right):
    verbs = {'tokens': Verb(run=tokens, help='Show the tokens.')}  # noqa: RUF012

    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=join_token(context, node).encode())


class Crooked(Right):
    verbs = {'machines': Verb(run=machines, help='Show the machines.')}  # noqa: RUF012


class Broken(Right):
    """Has a mistake in bootstrap, so no cluster comes to be."""

    def bootstrap(self, context, cluster, node):
        return {}[node.name]
