"""Tests of check, purge and upgrade of the database."""

import contextlib
import dataclasses

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from kiln.clusters.exceptions import ClusterNotFound, StoreBroken, StoreError
from kiln.clusters.models import Event, NodeState, OperationState
from kiln.db.database import Database
from kiln.db.store import open_store
from kiln.db.tables.schema import REVISION, metadata
from kiln.db.tables.upgrade import revisions, upgrade
from kiln.db.upkeep import check, purge
from tests.unit.db import samples
from tests.unit.db.case import TERM_S, ClusterCase

DAY_S = 86400.0


class Upkeep(ClusterCase):
    def setUp(self):
        super().setUp()
        self.database = Database(self.url, clock=self.clock)
        self.addCleanup(self.database.close)

    def settled(self, op_id, state=OperationState.SUCCEEDED):
        return samples.operation(op_id, state=state, ended_at=self.clock.time())

    def test_a_check_counts_rows(self):
        self.write(self.lease, node=[samples.node('n-1'), samples.node('n-2')])
        health = check(self.database)
        self.assertEqual((True, REVISION), (health.usable, health.revision))
        self.assertEqual(
            (1, 2, 1, 0),
            tuple(health.counts[name] for name in ('cluster', 'node', 'operation', 'step')),
        )

    def test_an_expired_lease_is_dangling_and_a_released_one_is_not(self):
        self.assertEqual((), check(self.database).dangling)
        self.store.leases.release(self.claim('given-up'))
        self.store.leases.release(self.claim('left-unsettled'), unsettled=True)
        self.pass_time(TERM_S + 5)
        (lease,) = check(self.database).dangling
        self.assertEqual(('c-web', 'me'), (lease.scope, lease.owner))

    def test_old_rows_are_purged_except_those_of_the_status(self):
        gone = samples.node('n-1', state=NodeState.GONE, since=self.clock.time())
        self.write(
            self.lease, step=samples.step(operation_id='op-web'), operation=self.settled('op-web'),
            event=samples.event('old'), node=[gone, samples.node('n-2')],
        )  # fmt: skip
        self.store.operations.submit(samples.operation('op-2'))
        self.write(self.lease, operation=self.settled('op-2'))
        self.pass_time(2 * DAY_S)
        self.write(self.lease, event=samples.event('new'))
        purged = purge(self.database, DAY_S)
        self.assertEqual({'operations': 1, 'nodes': 1, 'events': 1, 'tombstones': 0},
                         dataclasses.asdict(purged))  # fmt: skip
        self.assertEqual(['op-2'], [one.id for one in self.store.operations.of('c-web')])
        self.assertEqual((), self.store.journal.of('op-web'))
        self.assertEqual(['new'], [one.message for one in self.store.events.after()])
        self.assertEqual(['n-2'], [one.id for one in self.store.nodes.of('c-web')])

    def test_recent_and_running_operations_stay(self):
        self.pass_time(2 * DAY_S)
        self.store.operations.submit(samples.operation('op-2'), supersede=True)
        self.store.operations.submit(samples.operation('op-3'), supersede=True)
        self.write(self.lease, operation=self.settled('op-2', OperationState.CANCELLED))
        self.assertEqual(0, purge(self.database, DAY_S).operations)
        self.assertEqual(3, len(self.store.operations.of('c-web')))

    def test_a_receipt_is_purged_with_its_holdings_and_lease(self):
        self.write(self.lease, holding=samples.holding(gone_at=5.0))
        with self.store.writing(self.lease) as batch:
            batch.operation(self.settled('op-web'))
            batch.bury()
        self.assertEqual(0, purge(self.database, DAY_S).tombstones)
        self.store.receipts.get('web')
        self.pass_time(2 * DAY_S)
        purged = purge(self.database, DAY_S)
        self.assertEqual((1, 1), (purged.tombstones, purged.operations))
        with self.assertRaises(ClusterNotFound):
            self.store.receipts.get('web')
        self.assertEqual((), self.store.receipts.holdings('c-web'))
        self.assertIsNone(self.store.leases.get('c-web'))

    def test_numbers_of_events_are_not_reused_after_a_purge(self):
        self.write(self.lease, event=[samples.event()] * 3)
        self.pass_time(2 * DAY_S)
        self.assertEqual(3, purge(self.database, DAY_S).events)
        self.write(self.lease, event=samples.event())
        self.assertEqual([4], [one.seq for one in self.store.events.after()])
        self.assertIsInstance(self.store.events.after()[0], Event)


class Tables(ClusterCase):
    def setUp(self):
        super().setUp()
        self.database = Database(self.url, clock=self.clock)
        self.addCleanup(self.database.close)

    def set_revision(self, revision):
        with self.database.writing() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")

    def differences(self):
        """Return the differences between the tables of the database and of the code."""
        with self.database.reading() as connection:
            context = MigrationContext.configure(connection, opts={'compare_type': True})
            return compare_metadata(context, metadata)

    def refused(self, words):
        with self.assertRaisesRegex(StoreError, words):
            open_store(self.url, clock=self.clock)
        self.assertFalse(check(self.database).usable)

    def test_the_migrations_create_the_tables_of_the_code(self):
        self.assertEqual([], self.differences())

    def test_migrations_are_in_order_up_to_the_revision_of_the_code(self):
        self.assertEqual(REVISION, revisions()[-1])
        self.assertEqual(sorted(revisions()), list(revisions()))

    def test_upgrading_again_changes_nothing(self):
        self.assertEqual(REVISION, upgrade(self.database))
        self.assertEqual('web', self.store.clusters.get('web').name)

    def test_an_upgrade_counts_the_nodes_of_existing_clusters(self):
        self.create('team', spec=samples.spec('team', credentials='team-a'))
        before = self.rows('SELECT name, nodes, owner FROM cluster ORDER BY name')
        self.assertEqual([('team', 18, 'team-a'), ('web', 18, None)], before)
        with self.database.writing() as connection:
            connection.execute(sa.schema.DropIndex(self.index('cluster_by_owner')))
            for column in ('nodes', 'owner'):
                connection.exec_driver_sql(f'ALTER TABLE cluster DROP COLUMN {column}')
            connection.exec_driver_sql("DELETE FROM counter WHERE name = 'nodes'")
            connection.exec_driver_sql('ALTER TABLE holding DROP COLUMN node_name')
            for column in ('found_zone', 'addresses'):
                connection.exec_driver_sql(f'ALTER TABLE node DROP COLUMN {column}')
        self.set_revision('0004')
        self.assertEqual('0004', upgrade(self.database))
        self.assertEqual(before, self.rows('SELECT name, nodes, owner FROM cluster ORDER BY name'))
        self.assertEqual([], self.differences())

    def test_an_upgrade_names_the_nodes_of_what_clusters_hold(self):
        self.write(
            self.lease,
            node=samples.node(),
            holding=[samples.holding('a'), samples.holding('b', node_id='n-gone')],
        )
        with self.database.writing() as connection:
            connection.exec_driver_sql('ALTER TABLE holding DROP COLUMN node_name')
            for column in ('found_zone', 'addresses'):
                connection.exec_driver_sql(f'ALTER TABLE node DROP COLUMN {column}')
        self.set_revision('0005')
        upgrade(self.database)
        found = self.rows('SELECT id, node_name FROM holding ORDER BY id')
        self.assertEqual([('a', samples.node().name), ('b', None)], found)
        self.assertEqual([], self.differences())

    def index(self, name):
        return next(one for one in metadata.tables['cluster'].indexes if one.name == name)

    def test_tables_of_an_earlier_version_are_refused(self):
        self.set_revision('0000')
        self.refused(f"has revision 0000, .* needs {REVISION}. Stop all.*run 'kiln db upgrade'")

    def test_tables_of_a_later_version_are_refused_and_left_alone(self):
        self.set_revision('9999')
        self.refused("later version of kiln.*'kiln db check'")
        with self.assertRaisesRegex(StoreError, 'revision 9999 of a later kiln'):
            upgrade(self.database)

    def test_a_database_without_tables_gets_them(self):
        with self.database.writing() as connection:
            metadata.drop_all(connection)
            connection.exec_driver_sql('DROP TABLE alembic_version')
        self.refused("has no tables of kiln. Run 'kiln db upgrade'")
        self.assertIsNone(check(self.database).revision)
        self.assertIsNone(upgrade(self.database))
        self.assertEqual([], self.differences())
        with contextlib.closing(open_store(self.url, clock=self.clock)) as store:
            self.assertEqual((), store.clusters.list())

    def test_a_table_that_is_missing_is_told_from_a_server_that_is_away(self):
        self.addCleanup(self.rename, 'elsewhere', 'holding')
        self.rename('holding', 'elsewhere')
        with self.assertRaises(StoreBroken):
            self.store.receipts.holdings('web')

    def rename(self, table, name):
        with self.database.writing() as connection:
            connection.exec_driver_sql(f'ALTER TABLE {table} RENAME TO {name}')

    def test_a_row_of_a_later_version_is_named(self):
        with self.database.writing() as connection:
            connection.exec_driver_sql("UPDATE operation SET kind = 'teleport'")
        with self.assertRaisesRegex(StoreError, "'teleport'.*Use the version of kiln"):
            self.store.operations.get('op-web')
