"""Cluster drivers with an engine of their own that are wrong on purpose, each in one way.

The module imports little, as another process has to import it.
"""

import logging
import os
import threading
import time
import uuid

from kiln.cluster_drivers.values import Loss, Progress, StatusReport
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import ClusterDriverError
from tests.kit.own_engine_stack import NoSuchStack, Right, Units


class Reported(Right):
    """Right, with a hook for animals that change its reports."""

    def changed(self, report, context, cluster):
        return report

    def update_cluster_status(self, context, cluster):
        report = super().update_cluster_status(context=context, cluster=cluster)
        return self.changed(report, context, cluster)


def altered(report, **changes):
    fields = ('progress', 'reason', 'driver_handle', 'driver_state', 'outputs', 'events')
    return StatusReport(**{name: getattr(report, name) for name in fields} | changes)


# ---- repeats -----------------------------------------------------------------------------


class Twins(Right):
    """Names each stack at random."""

    def name_of(self, cluster):
        return cluster.driver_handle or f'kiln-{uuid.uuid4()}'

    def wanted(self, context, cluster, **more):
        name = self.name_of(cluster)
        self.engine.want(name, self.groups(context, cluster), cluster.name, **more)
        return StatusReport(progress=Progress.IN_PROGRESS, driver_handle=name)


class Touchy(Right):
    """Raises if what it is to create exists."""

    def create_cluster(self, context, cluster, cluster_create_timeout):
        try:
            self.engine.get(self.name_of(cluster))
        except NoSuchStack:
            return super().create_cluster(
                context=context, cluster=cluster, cluster_create_timeout=0
            )
        raise ClusterDriverError('The stack exists.')


class Offended(Right):
    """Raises if what it is to delete is gone."""

    def delete_cluster(self, context, cluster):
        try:
            self.engine.get(self.name_of(cluster))
        except NoSuchStack as exc:
            raise ClusterDriverError('There is no such stack.') from exc
        return super().delete_cluster(context=context, cluster=cluster)


class Growing(Right):
    """Adds to what stands, once for each call."""

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        stack = self.engine.get(self.name_of(cluster))
        groups = self.groups(context, cluster)
        groups[nodegroup.name]['count'] = stack['groups'][nodegroup.name]['count'] + 1
        self.engine.want(self.name_of(cluster), groups)
        return self.started(cluster)


class Insatiable(Right):
    """Removes another node where the named one is gone."""

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        nodes = self.engine.get(self.name_of(cluster))['nodes']
        named = [one for one in nodes_to_remove if one in nodes]
        if nodes_to_remove and not named:
            named = [one for one in nodes if nodes[one]['group'] == nodegroup.name][:1]
        return self.wanted(context, cluster, remove=named)


class Resigned(Right):
    """Leaves a stack that has failed as it is."""

    def create_cluster(self, context, cluster, cluster_create_timeout):
        try:
            self.engine.get(self.name_of(cluster))
        except NoSuchStack:
            return super().create_cluster(
                context=context, cluster=cluster, cluster_create_timeout=0
            )
        return self.started(cluster)


# ---- truth ---------------------------------------------------------------------------------


class Premature(Reported):
    """Complete while the engine is at work."""

    def changed(self, report, context, cluster):
        if report.progress is Progress.IN_PROGRESS:
            return altered(report, progress=Progress.COMPLETE)
        return report


class Repetitive(Reported):
    """Reports the same event with each report."""

    def changed(self, report, context, cluster):
        return altered(report, events=['a node was made'])


class Counting(Right):
    """Complete once there are as many nodes as are wanted, wherever they are."""

    def progress(self, stack):
        wanted = sum(group['count'] for group in stack['groups'].values())
        if stack['state'] == 'working' and len(stack['nodes']) == wanted:
            return Progress.COMPLETE
        return super().progress(stack)


class Horrified(Right):
    """Never complete with an empty group."""

    def progress(self, stack):
        if any(group['count'] == 0 for group in stack['groups'].values()):
            return Progress.IN_PROGRESS
        return super().progress(stack)


class Grudging(Right):
    """Remembers for ever that a cluster was to be deleted."""

    def started(self, cluster, **state):
        before = {'deleting': cluster.driver_state.get('deleting', False)}
        return super().started(cluster, **{**before, **state})


class Dismissive(Right):
    """Deleted as soon as the engine has been told to."""

    def delete_cluster(self, context, cluster):
        super().delete_cluster(context=context, cluster=cluster)
        return StatusReport(progress=Progress.COMPLETE)


class Careless(Right):
    """Updated as soon as the engine has been told to."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        super().update_cluster(context=context, cluster=cluster)
        return StatusReport(progress=Progress.COMPLETE)


class Rash(Right):
    """Resized as soon as the engine has been told to."""

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        self.wanted(context, cluster, remove=nodes_to_remove)
        return StatusReport(progress=Progress.COMPLETE)


class Optimist(Right):
    """Failed is complete."""

    def progress(self, stack):
        working = stack['state'] == 'working'
        return Progress.IN_PROGRESS if working else Progress.COMPLETE


class Hopeful(Right):
    """Failed is still at work."""

    def progress(self, stack):
        return Progress.COMPLETE if stack['state'] == 'done' else Progress.IN_PROGRESS


class Taciturn(Reported):
    """Never says why."""

    def changed(self, report, context, cluster):
        return altered(report, reason='')


class Gloomy(Reported):
    """Away is failed."""

    def changed(self, report, context, cluster):
        if report.progress is Progress.UNKNOWN:
            return altered(report, progress=Progress.FAILED)
        return report


class Blithe(Reported):
    """Away is complete."""

    def changed(self, report, context, cluster):
        if report.progress is Progress.UNKNOWN:
            return altered(report, progress=Progress.COMPLETE)
        return report


class Final(Right):
    """Does not let an engine that is away be asked again."""

    def create_cluster(self, context, cluster, cluster_create_timeout):
        try:
            return super().create_cluster(
                context=context, cluster=cluster, cluster_create_timeout=0
            )
        except ClusterDriverError as exc:
            raise ClusterDriverError(exc.reason) from exc


class Raw(Right):
    """Lets the errors of its engine through."""

    def delete_cluster(self, context, cluster):
        self.engine.drop(self.name_of(cluster))
        return self.started(cluster, deleting=True)


class Forgiving(Reported):
    """What is not there is complete."""

    def changed(self, report, context, cluster):
        if report.reason == 'there is no such stack':
            return altered(report, progress=Progress.COMPLETE)
        return report


class Strict(Reported):
    """What is not there is failed, even if it was to be deleted."""

    def changed(self, report, context, cluster):
        if report.reason == 'there is no such stack':
            return altered(report, progress=Progress.FAILED)
        return report


# ---- answers -------------------------------------------------------------------------------


class Wordy(Reported):
    """Reports a progress that nobody knows."""

    def changed(self, report, context, cluster):
        return altered(report, progress='nearly')


class Shapeless(Reported):
    """Keeps a state that JSON cannot hold."""

    def changed(self, report, context, cluster):
        return altered(report, driver_state={'seen': {1, 2}})


class Mute(Reported):
    """Reports nothing."""

    def changed(self, report, context, cluster):
        return None


class Sleeper(Right):
    """Sleeps before it asks for anything."""

    def create_cluster(self, context, cluster, cluster_create_timeout):
        time.sleep(10)
        return super().create_cluster(context=context, cluster=cluster, cluster_create_timeout=0)


class Waiter(Right):
    """Waits until its engine is done."""

    def delete_cluster(self, context, cluster):
        report = super().delete_cluster(context=context, cluster=cluster)
        try:
            while self.engine.get(self.name_of(cluster)):
                time.sleep(0.1)
        except NoSuchStack:
            return report


class Persistent(Right):
    """Waits until its engine is back."""

    def update_cluster_status(self, context, cluster):
        while True:
            report = super().update_cluster_status(context=context, cluster=cluster)
            if report.progress is not Progress.UNKNOWN:
                return report
            time.sleep(0.1)


class Hanging(Right):
    """Does not return until a test ends it."""

    ends = threading.Event()

    def delete_cluster(self, context, cluster):
        self.ends.wait()


class Late(Reported):
    """Has outputs once an operation has ended."""

    def changed(self, report, context, cluster):
        if report.progress is not Progress.COMPLETE:
            return altered(report, outputs=None)
        if not cluster.driver_state.get('told'):
            state = {**cluster.driver_state, 'told': True}
            return altered(report, outputs=None, driver_state=state)
        return report


class Opaque(Right):
    verbs = {  # noqa: RUF012
        'opaque': Verb(run=lambda context, cluster, arguments: {'it': object()}, help='Fail.')
    }


class Clumsy(Right):
    verbs = {  # noqa: RUF012
        'clumsy': Verb(run=lambda context, cluster, arguments: {}['it'], help='Fail.')
    }


class Ageing(Right):
    """Measures what it has measured first."""

    def get_monitor(self, context, cluster):
        return Same(context, cluster)


class Same(Units):
    def pull(self):
        return {'units': 4}


class Unequipped(Right):
    """Declares a monitor, and has none."""

    def get_monitor(self, context, cluster):
        return None


class Confident(Right):
    """Takes it for granted that a cluster names credentials."""

    def sign_in(self, context):
        context.secrets.get(context.credentials)


class Individual(Reported):
    """Reports in each process something else."""

    def changed(self, report, context, cluster):
        return altered(report, outputs={'process': os.getpid()} if report.outputs else None)


class Misleading(Reported):
    """Sends users to another place."""

    def changed(self, report, context, cluster):
        return altered(report, outputs={'url': 'http://example.org/'} if report.outputs else None)


class Unsure(Reported):
    """Takes what is lost for what is away."""

    def changed(self, report, context, cluster):
        gone = report.progress is Progress.FAILED and 'no such stack' in report.reason
        return altered(report, progress=Progress.UNKNOWN) if gone else report


# ---- validation ------------------------------------------------------------------------------


class Concealing(Right):
    """Tells what is lost as if it were not."""

    def preview_cluster(self, context, cluster, plan):
        return list(map(str, super().preview_cluster(context=context, cluster=cluster, plan=plan)))


class Alarmist(Right):
    """Tells each change as a loss."""

    def preview_cluster(self, context, cluster, plan):
        return list(
            map(Loss, super().preview_cluster(context=context, cluster=cluster, plan=plan))
        )


class Disorderly(Right):
    """Tells what is lost after all the rest."""

    def preview_cluster(self, context, cluster, plan):
        return super().preview_cluster(context=context, cluster=cluster, plan=plan)[::-1]


class Indifferent(Right):
    """Takes every value."""

    def validate(self, context, cluster, plan):
        return ()


class Hurried(Right):
    """Reports the first mistake alone."""

    def validate(self, context, cluster, plan):
        return super().validate(context, cluster, plan)[:1]


class Preparing(Right):
    """Has the engine prepare what might be built."""

    def validate(self, context, cluster, plan):
        self.wanted(context, cluster)
        return super().validate(context, cluster, plan)


class Pensive(Right):
    """Thinks before it answers."""

    def validate(self, context, cluster, plan):
        time.sleep(30)
        return super().validate(context, cluster, plan)


class Vague(Right):
    """Measures another value than its monitor has."""

    def get_monitor(self, context, cluster):
        return Nothing(context, cluster)


class Nothing(Units):
    def pull(self):
        return {'unit': 3}


# ---- secrets -------------------------------------------------------------------------------


class Written(Right):
    """Keeps a secret in the state."""

    def started(self, cluster, **state):
        return super().started(cluster, **state, password=self.password)

    def wanted(self, context, cluster, **more):
        self.password = context.secrets.get(context.credentials)
        return super().wanted(context, cluster, **more)

    password = ''


class Outspoken(Reported):
    """Tells a secret when its engine is away."""

    def changed(self, report, context, cluster):
        if report.progress is Progress.UNKNOWN:
            secret = context.secrets.get(context.credentials)
            return altered(report, reason=f'cannot connect as {secret}')
        return report


class Talkative(Reported):
    """Logs a secret."""

    def changed(self, report, context, cluster):
        secret = context.secrets.get(context.credentials)
        logging.getLogger(__name__).warning('as %s', secret)
        return report


def tell(context, cluster, arguments):
    return {'secret': context.secrets.get('any')}


class Confiding(Right):
    verbs = {'tell': Verb(run=tell, help='Tell.')}  # noqa: RUF012
