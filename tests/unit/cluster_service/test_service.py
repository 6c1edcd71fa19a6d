"""Clusters from the file to the receipt, through the facade."""

import concurrent.futures
import contextlib
import pathlib
import shutil
import tempfile

from kiln.cluster_service.requests import (
    Adopt,
    Delete,
    GoBack,
    MoveDriver,
    Reboot,
    Replace,
    Resize,
    Upgrade,
)
from kiln.cluster_service.why import why
from kiln.clusters.exceptions import (
    ClusterBusy,
    ClusterChanged,
    ClusterDriverUnknown,
    ClusterError,
    ClusterExists,
    ClusterNotFound,
    MissingCapability,
)
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.testing.clock import VirtualClock
from tests.unit.cluster_service.site import WEB, ConductedCase, SiteCase, declared
from tests.unit.db.case import take_over

FOREIGN = """
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Progress, StatusReport

DONE = StatusReport(progress=Progress.COMPLETE)


class Driver(ClusterDriver):
    name = 'heat_like_v1'
    version = '1.0.0'
    provides = (('vm', '*', 'heat'),)

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return StatusReport(driver_handle=f'stack of {cluster.name}')

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return DONE

    def delete_cluster(self, context, cluster):
        return DONE

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        return DONE

    def update_cluster_status(self, context, cluster):
        return DONE
"""


class Entering(SiteCase):
    """No conductor runs here."""

    def setUp(self):
        super().setUp()
        self.operation = self.apply(declared(WEB))

    def test_finding_6_an_applied_operation_is_in_the_store_when_apply_returns(self):
        (view,) = self.clusters.list()
        self.assertEqual(('web', 'queued'), (view.cluster.name, view.state))
        self.assertEqual(self.operation, self.clusters.operation(self.operation.id))

    def test_an_operation_that_nobody_works_on_blocks_its_cluster(self):
        (condition,) = self.clusters.conditions(self.clusters.show('web'))
        self.assertEqual(('blocked', 'nobody_works'), (condition.kind, condition.cause.code))

    def test_a_lease_is_judged_by_the_clock_of_the_store(self):
        cluster_id = self.clusters.show('web').cluster.id
        take_over(self.site.store, cluster_id, 'another-host.7.x', 15.0)
        # This host's clock is an hour ahead of the store's.
        self.clusters._clock = VirtualClock(self.clock.time() + 3600)
        (condition,) = self.clusters.conditions(self.clusters.show('web'))
        self.assertEqual('progressing', condition.kind)
        attention = self.clusters.attention('web')
        self.assertEqual('another-host.7.x', attention.worker)
        self.assertAlmostEqual(15.0, attention.expires_s, delta=10.0)

    def test_a_creation_has_the_timeout_of_the_cluster(self):
        allowed = self.operation.deadline_at - self.operation.created_at
        self.assertAlmostEqual(3600.0, allowed, delta=1.0)

    def test_a_name_is_unique(self):
        twice = self.plan(WEB.replace('cluster: web', 'cluster: two'))
        self.clusters.apply(twice)
        with self.assertRaises(ClusterExists):
            self.clusters.apply(twice)

    def test_a_second_operation_is_refused_while_one_is_under_way(self):
        told = r"cluster 'web': its create is queued. .*\('kiln cluster cancel web'\)"
        with self.assertRaisesRegex(ClusterBusy, told):
            self.apply(Resize(cluster='web', group='front', count=3))

    def test_a_deletion_supersedes_the_operation_under_way(self):
        deletion = self.apply(Delete(cluster='web'))
        self.assertIs(OperationKind.DELETE, deletion.kind)
        self.assertTrue(self.clusters.operation(self.operation.id).cancelled)

    def test_a_pause_is_reported_once(self):
        for _ in range(2):
            self.assertTrue(self.clusters.pause('web').paused)
        self.assertEqual('paused', self.clusters.show('web').state)
        (reason,) = why(self.clusters.show('web'), 0.0)
        self.assertIn('does nothing, since the cluster is paused', reason.next)
        self.assertFalse(self.clusters.resume('web').paused)
        kinds = [event.kind for event in self.clusters.events()]
        self.assertEqual(['paused', 'resumed'], kinds)

    def test_an_operation_under_way_can_be_cancelled(self):
        (cancelled,) = self.clusters.cancel('web')
        self.assertTrue(cancelled.cancelled)

    def test_a_stopped_operation_can_be_retried(self):
        with self.assertRaises(ClusterBusy):
            self.clusters.retry('web')
        self.clusters.cancel('web')
        with self.site.conducting():
            self.ended(self.operation, timeout_s=10.0)
            retried = self.clusters.retry('web', timeout_s=60.0)
            self.assertEqual(self.operation.id, retried.id)
            ended = self.ended(retried)
        self.assertIs(OperationState.SUCCEEDED, ended.state)
        self.assertIn('operation-retried', [event.kind for event in self.clusters.events()])
        with self.assertRaisesRegex(ClusterChanged, 'succeeded'):
            self.clusters.retry('web')

    def test_a_change_can_roll_back_if_it_fails(self):
        self.clusters.cancel('web')
        with self.site.conducting():
            self.ended(self.operation, timeout_s=10.0)
        proposal = self.clusters.plan(Resize(cluster='web', group='front', count=3))
        operation = self.clusters.apply(proposal, rollback=True, timeout_s=60.0)
        self.assertTrue(operation.args['rollback'])
        self.assertAlmostEqual(60.0, operation.deadline_at - operation.created_at)


class Life(ConductedCase):
    def test_000_5_from_the_file_to_the_receipt(self):
        self.up()
        view = self.clusters.show('web')
        self.assertEqual(('ready', 5, 5), (view.state, view.ready, view.wanted))
        self.assertEqual(5, len(self.machines()))
        self.done(Delete(cluster='web'))
        with self.assertRaises(ClusterNotFound):
            self.clusters.show('web')
        receipt = self.clusters.receipt('web')
        self.assertEqual(5, len(receipt.holdings))
        self.assertTrue(all(one.gone_at for one in receipt.holdings))
        self.assertEqual([], self.machines())

    def test_003_4_only_three_named_nodes_are_removed_from_the_middle(self):
        self.up(WEB.replace('count: 2', 'count: 9'))
        before = {one.compute_id for one in self.clusters.show('web').nodes}
        front = [one for one in self.clusters.show('web').nodes if one.group == 'front'][3:6]
        self.done(Resize(cluster='web', remove=tuple(one.name for one in front)))
        after = {one.compute_id for one in self.clusters.show('web').nodes}
        self.assertEqual(before - after, {one.compute_id for one in front})
        self.assertLess(after, before)

    def test_nodes_are_replaced_and_upgraded(self):
        self.up()
        first, *others = self.clusters.show('web').nodes
        self.done(Replace(cluster='web', nodes=(first.name,)))
        ids = {one.id for one in self.clusters.show('web').nodes}
        self.assertNotIn(first.id, ids)
        self.assertLess({one.id for one in others}, ids)
        self.done(Upgrade(cluster='web', machine=MachineSpec(image='debian-14')))
        self.assertFalse(ids & {one.id for one in self.clusters.show('web').nodes})
        self.assertEqual({'debian-14'}, {one.image_id for one in self.machines()})
        cluster_id = self.clusters.show('web').cluster.id
        kinds = [one.kind.value for one in self.site.store.operations.of(cluster_id)]
        self.assertEqual(['upgrade', 'replace', 'create'], kinds)

    def test_nodes_of_an_older_spec_are_a_condition_of_their_cluster(self):
        self.up()
        self.assertEqual(['ready'], self.conditions())
        newer = WEB.replace('debian-13', 'debian-14')
        self.assertNotEqual(WEB, newer)
        self.clusters.apply(self.clusters.plan(declared(newer)))
        self.clusters.cancel('web')
        self.ended(self.clusters.show('web').operation)
        self.assertIn('drifted', self.conditions())

    def conditions(self):
        return [one.kind.value for one in self.clusters.conditions(self.clusters.show('web'))]

    def test_a_node_that_is_gone_can_still_be_shown(self):
        self.up()
        node = self.clusters.show('web').nodes[0]
        self.done(Resize(cluster='web', remove=(node.name,)))
        self.assertIs(NodeState.GONE, self.clusters.node('web', node.name).state)

    def test_why_shows_causes_down_to_the_providers_message(self):
        self.cloud.faults.add(Fault.parse('build:quota=Quota exceeded for cores'))
        operation = self.clusters.apply(self.plan(), timeout_s=0.5)
        ended = self.ended(operation)
        self.assertIs(OperationState.FAILED, ended.state)
        cluster, *_ = reasons = list(why(self.clusters.show('web'), ended.ended_at + 10))
        self.assertIn('failed, 0 of 5 nodes ready; create failed 10 s ago', cluster.said)
        lines = [line for reason in reasons for line in reason.lines()]
        self.assertTrue(any('Quota exceeded for cores' in line for line in lines), lines)
        self.assertTrue(any(line.startswith('  you: ') for line in lines), lines)

    def test_many_concurrent_callers_do_not_interfere(self):
        pages = [WEB.replace('cluster: web', f'cluster: web-{n}') for n in range(6)]
        with concurrent.futures.ThreadPoolExecutor(6) as callers:
            list(callers.map(self.up, pages))
        self.assertEqual(30, len(self.machines()))


class Foreign(ConductedCase):
    """A directory driver whose nodes an engine of its own builds."""

    def setUp(self):
        folder = self.write_driver()
        super().setUp()
        self.driver_path.rmdir()
        folder.parent.rename(self.driver_path)

    def write_driver(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'drivers'
        folder = root / 'heat_like_v1'
        folder.mkdir(parents=True)
        (folder / 'version.py').write_text(
            "version = '1.0.0'\ndriver = 'heat_like_v1'\nprovides = [('vm', '*', 'heat')]\n"
        )
        (folder / 'driver.py').write_text(FOREIGN)
        return folder

    def test_000_1_an_engine_of_the_drivers_own_builds_and_deletes(self):
        text = WEB.replace('coe: nodes', 'coe: heat')
        notices = self.plan(text).notices
        self.assertIn('plans nodes by itself', notices[-1])
        self.up(text)
        view = self.clusters.show('web')
        self.assertEqual('stack of web', view.cluster.driver_handle)
        # kiln has no record of its nodes, so none is missing.
        self.assertEqual('ready', view.state)
        self.assertEqual(['ready'], [one.kind.value for one in self.clusters.conditions(view)])
        self.done(Resize(cluster='web', group='front', count=3))
        self.done(Delete(cluster='web'))
        with self.assertRaises(ClusterNotFound):
            self.clusters.show('web')

    def test_a_missing_capability_is_refused_before_anything_is_submitted(self):
        self.up(WEB.replace('coe: nodes', 'coe: heat'))
        with self.assertRaises(MissingCapability):
            self.clusters.plan(Reboot(cluster='web'))
        cluster_id = self.clusters.show('web').cluster.id
        self.assertEqual(1, len(self.site.store.operations.of(cluster_id)))


class Adopting(ConductedCase):
    def test_a_machine_of_the_site_becomes_a_node(self):
        self.up()
        with contextlib.closing(NoopDriver(cloud=self.cloud)) as driver:
            amphora_id = driver.build(name='stray')
        self.done(Adopt(cluster='web', group='front', amphora_id=amphora_id))
        view = self.clusters.show('web')
        self.assertIn(amphora_id, {one.compute_id for one in view.nodes})
        self.assertEqual(3, view.cluster.spec.group('front').shape.count)
        with self.assertRaisesRegex(ClusterError, 'already'):
            self.clusters.plan(Adopt(cluster='web', group='front', amphora_id=amphora_id))


class Drivers(SiteCase):
    def directory_driver(self, name='plain_v1'):
        folder = self.driver_path / name
        (folder / 'templates').mkdir(parents=True, exist_ok=True)
        (folder / 'templates' / 'user_data.yaml').write_text('#cloud-config\n')
        (folder / 'driver.yaml').write_text(
            f'name: {name}\nversion: 1.0.0\nprovides:\n'
            "  - {server_type: '*', os: '*', coe: plain}\nuser_data: user_data.yaml\n"
        )
        return folder

    def conduct(self, site, request):
        """Run something in another process, which then ends."""
        with site.conducting():
            operation = site.clusters.apply(site.clusters.plan(request))
            ended = self.ended(operation, timeout_s=30.0)
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended.cause)

    def up(self):
        folder = self.directory_driver()
        self.conduct(self.site, declared(WEB.replace('coe: nodes', 'coe: plain')))
        return folder

    def test_000_9_a_directory_without_python_builds_a_cluster(self):
        self.up()
        pin = self.clusters.show('web').cluster.pin
        self.assertEqual(('plain_v1', '1.0.0'), (pin.name, pin.version))
        self.assertIn('directory', pin.origin)

    def test_001_11_a_failed_move_can_return_to_the_former_driver(self):
        self.up()
        self.directory_driver('other_v1')
        site = self.open_site()
        moved = site.clusters.apply(
            site.clusters.plan(MoveDriver(cluster='web', driver='other_v1'))
        )
        site.clusters.cancel('web')
        with site.conducting():
            self.ended(moved)
        self.assertEqual('other_v1', site.clusters.show('web').cluster.pin.name)
        back = site.clusters.plan(GoBack(cluster='web'))
        self.assertIn('web: ~ driver other_v1 1.0.0 -> plain_v1 1.0.0', list(back.lines()))
        self.conduct(site, GoBack(cluster='web'))
        self.assertEqual('plain_v1', site.clusters.show('web').cluster.pin.name)

    def test_pain_5_a_cluster_whose_driver_is_gone_can_still_be_deleted(self):
        shutil.rmtree(self.up())
        other = self.open_site()
        with self.assertRaises(ClusterDriverUnknown):
            other.clusters.plan(Resize(cluster='web', group='front', count=3))
        ready, blocked = other.clusters.conditions(other.clusters.show('web'))
        self.assertEqual(('ready', 'blocked'), (ready.kind.value, blocked.kind.value))
        self.assertEqual('cluster_driver_unknown', blocked.cause.code)
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            self.conduct(other, Delete(cluster='web'))
        self.assertIn('without its driver', logs.output[0])
        self.assertEqual(0, self.cloud.count())
        self.assertEqual(5, len(other.clusters.receipt('web').holdings))

    def test_pain_5_a_cluster_whose_driver_is_broken_can_be_deleted_too(self):
        (self.up() / 'driver.yaml').write_text('name: [')
        self.conduct(self.open_site(), Delete(cluster='web'))
        self.assertEqual(0, self.cloud.count())

    def test_a_driver_that_is_restored_is_found_by_a_running_process(self):
        folder = self.up()
        shutil.move(folder, self.driver_path.parent / 'away')
        other = self.open_site()
        with self.assertRaises(ClusterDriverUnknown):
            other.clusters.plan(Resize(cluster='web', group='front', count=3))
        shutil.move(self.driver_path.parent / 'away', folder)
        self.assertEqual(1, len(list(other.clusters.plan(
            Resize(cluster='web', group='front', count=3)
        ).lines())))  # fmt: skip
