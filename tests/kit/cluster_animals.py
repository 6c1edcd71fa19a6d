"""Cluster drivers that are wrong on purpose, each in one way.

The module imports little, as another process has to import it.
"""

import dataclasses
import logging
import threading
import time
import uuid
from typing import ClassVar

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import OutputMapping, ParameterMapping
from kiln.cluster_drivers.values import Bootstrap, Cap, Readiness, StatusReport, join_token
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import Problem

#: Seconds that slow methods in here wait: long enough to be noticed on any machine.
PATIENCE_S = 0.02


class Right(NodeClusterDriver):
    """Correct in everything; each animal of the zoo differs in one defect."""

    name = 'right_v1'
    version = '1.0.0'
    provides = (('*', '*', 'nodes'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)


class Brief(Right):
    """Correct, with only the capabilities that every driver must have."""

    missing_capabilities = frozenset({Cap.RESIZE, Cap.UPGRADE, Cap.REBOOT, Cap.REBUILD})


class Forgetful(Right):
    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=uuid.uuid4().bytes)


class Hasty(Right):
    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=' '.join({f'word-{i}' for i in range(50)}).encode())


class Large(Right):
    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=b'x' * 2**20)


class Talkative(Right):
    def bootstrap(self, context, cluster, node):
        token = join_token(context, node)
        logging.getLogger(__name__).warning('The token is %s', token)
        return Bootstrap(user_data=token.encode(), join_token=token)


class Patient(Right):
    def is_ready(self, context, cluster, node):
        time.sleep(PATIENCE_S)
        return Readiness.not_yet('it never becomes ready')


class Yes(Right):
    def drain(self, context, cluster, node):
        return True


class Misspelt(Right):
    def is_redy(self, context, cluster, node):
        raise AssertionError('this method is never called')


class Versionless(Right):
    version = 'one'


class Picky(Right):
    def validate(self, context, cluster, plan):
        return (Problem(message='this driver rejects every cluster'),)


class Busy(Right):
    def validate(self, context, cluster, plan):
        gone = threading.Event()
        threading.Thread(target=gone.wait, args=(20,), daemon=True).start()
        return super().validate(context, cluster, plan)


class Careless(Right):
    def validate(self, context, cluster, plan):
        return ()


class Opaque(Right):
    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs={'thing': object()})


class Gossip(Right):
    def bootstrap(self, context, cluster, node):
        Gossip.heard = context.secrets.get('kit')
        return Bootstrap()

    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs={'heard': self.heard})


class Shapeless(Right):
    """Keeps a state that JSON cannot hold."""

    def update_cluster_status(self, context, cluster):
        return StatusReport(driver_state={'seen': {1, 2}})


class Wordy(Right):
    """Reports a progress that nobody knows."""

    def update_cluster_status(self, context, cluster):
        return StatusReport(progress='nearly')


class Terse(Right):
    """Returns a word instead of a report."""

    def update_cluster_status(self, context, cluster):
        return 'complete'


class Clumsy(Right):
    """Has a mistake, which is not an error of the contract."""

    def is_ready(self, context, cluster, node):
        return {}[node.name]


class Ruthless(Right):
    def get_scale_manager(self, context, cluster):
        return Stranger(context, cluster)


class Stranger(DefaultScaleManager):
    def order(self, nodegroup, nodes):
        return [dataclasses.replace(node, id='stranger') for node in nodes]


class Restless(Right):
    def get_scale_manager(self, context, cluster):
        return Twice(context, cluster)


class Twice(DefaultScaleManager):
    def replacement_order(self, nodegroup, nodes):
        return [*nodes, *nodes]


class Dizzy(Right):
    def rotate_ca_certificate(self, context, cluster):
        return True


class Fickle(Right):
    def compute_driver_for(self, cluster, nodegroup):
        return str(uuid.uuid4())


class Mute(Right):
    verbs = {'shout': Verb(run=print, help='')}  # noqa: RUF012


class Deaf(Right):
    def get_monitor(self, context, cluster):
        return Slow(context, cluster)


class Slow(Monitor):
    metrics = (Metric('a', 'b', 'c'),)

    def pull(self):
        time.sleep(PATIENCE_S)
        return {}


class Lenient(Right):
    """Takes a cluster without nodes, which nobody can want."""

    def validate(self, context, cluster, plan):
        return super().validate(context, cluster, plan)


class Placeless(Right):
    """Says what is wrong, and not where."""

    def validate(self, context, cluster, plan):
        found = tuple(super().validate(context, cluster, plan))
        nodes = sum(group.shape.count for group in cluster.spec.groups)
        return found if nodes else (*found, Problem(message='a cluster has nodes'))


class Pensive(Right):
    """Thinks before it answers."""

    def validate(self, context, cluster, plan):
        time.sleep(30)
        return super().validate(context, cluster, plan)


class Unequipped(Right):
    """Declares a monitor, and has none."""

    def get_monitor(self, context, cluster):
        return None


class Mixing(Right):
    """Has the outputs of the first cluster for all others, too."""

    kept: ClassVar[list[object]] = []

    def update_cluster_status(self, context, cluster):
        outputs = {'nodes': [node.address for node in context.nodes]}
        self.kept.append(StatusReport(outputs=outputs))
        return self.kept[0]


class Lengthy(Right):
    """Takes its time to report."""

    def update_cluster_status(self, context, cluster):
        time.sleep(30)
        return super().update_cluster_status(context, cluster)


class Roomy(Right):
    """Takes any port."""

    def get_template_definition(self):
        definition = super().get_template_definition()
        definition.add_parameter(ParameterMapping(name='port', type=ParameterType.INTEGER))
        definition.add_output(OutputMapping(name='port', text='{{ port }}'))
        return definition


class Narrow(Roomy):
    """Takes few ports."""

    def get_template_definition(self):
        definition = super().get_template_definition()
        definition.parameters['port'] = dataclasses.replace(
            definition.parameters['port'], minimum=1025
        )
        return definition


class Heedless(Right):
    """Takes any change."""

    def validate(self, context, cluster, plan):
        return super().validate(context, cluster, plan)


class Timid(Right):
    """Takes no reboot."""

    def validate(self, context, cluster, plan):
        found = tuple(super().validate(context, cluster, plan))
        reset = any(group.reset for group in plan.groups)
        return (*found, Problem(message='no', path='nodegroups')) if reset else found


def _greet(context, cluster, arguments):
    return {'greeted': arguments['times']}


class Obliging(Right):
    """Greets nobody at all, if that is asked for."""

    verbs = {  # noqa: RUF012
        'greet': Verb(
            run=_greet,
            help='Greet everybody.',
            parameters=(Parameter(name='times', type=ParameterType.INTEGER, help='How often.'),),
        )
    }
