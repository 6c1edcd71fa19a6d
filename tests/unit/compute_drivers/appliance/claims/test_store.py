"""The file of claims: what it holds and for how long, who can read it, what a power cut leaves."""

import dataclasses
import functools
import sqlite3
import stat

from kiln.compute_drivers.appliance.claims import state_machine
from kiln.compute_drivers.appliance.claims.records import Claims
from kiln.compute_drivers.appliance.claims.state_machine import Ended
from kiln.compute_drivers.appliance.claims.store import Store
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.exceptions import ConfigurationError, ServiceUnavailable
from tests.unit.compute_drivers.appliance.samples import RULES, PoolCase, pool, request


def keep(claim):
    return claim


class Files(PoolCase):
    def test_the_payload_is_kept_until_the_claim_command_has_ended(self):
        claims = self.open_claims()
        inventory = parse(pool(1, each='claim = ["/bin/c"]\n'), 'i')
        secret = b'correct-horse-battery-staple'
        one = claims.claim(request(user_data=secret * 20), inventory, 1.0)
        self.assertIn(b'user_data', claims.with_payload(one.id)[1])
        claims.change(
            one.id,
            lambda claim: state_machine.command_ended(
                claim, inventory.machines['m1'], Ended(True), 2.0, RULES
            ),
            2.0,
        )
        self.assertIsNone(claims.with_payload(one.id)[1])
        self.assert_no_file_has(b'Y29ycmVjdC1ob3JzZS')

    def test_the_payload_is_removed_from_the_files_when_its_claim_ends(self):
        claims = self.open_claims()
        inventory = parse(pool(1, each='claim = ["/bin/c"]\n'), 'i')
        one = claims.claim(request(user_data=b'correct-horse-battery-staple' * 20), inventory, 1.0)
        claims.change(one.id, lambda _: None, 2.0)
        self.assert_no_file_has(b'Y29ycmVjdC1ob3JzZS')

    def assert_no_file_has(self, content):
        for path in self.folder.iterdir():
            self.assertNotIn(content, path.read_bytes(), path.name)

    def test_a_claim_that_waits_keeps_its_payload_and_no_other_gets_it(self):
        claims = self.open_claims()
        inventory = parse(pool(2, each='claim = ["/bin/c"]\n'), 'i')
        made = [
            claims.claim(request(build_key=key, keys=[key]), inventory, 1.0) for key in ('a', 'b')
        ]
        for one in made:
            claims.change(one.id, functools.partial(dataclasses.replace, due=5.0), 2.0)
        kept = [claims.with_payload(one.id)[1] for one in made]
        self.assertEqual([b'"keys": ["a"]' in kept[0], b'"keys": ["b"]' in kept[1]], [True] * 2)

    def test_only_a_change_that_must_outlive_the_host_waits_for_the_disk(self):
        store = Store(self.folder / 'claims.db')
        self.addCleanup(store.close)
        for durable in True, False, True:
            with store.write(durable=durable) as db:
                # 2 is FULL, 1 is NORMAL.
                level = db.execute('PRAGMA synchronous').fetchone()[0]
            self.assertEqual(2 if durable else 1, level)
            with store.read() as db:
                self.assertEqual(2, db.execute('PRAGMA synchronous').fetchone()[0])

    def test_a_change_says_itself_if_it_must_outlive_the_host(self):
        asked = []

        class Watched(Store):
            def write(self, *, durable=True):
                asked.append(durable)
                return super().write(durable=durable)

        store = Watched(self.folder / 'claims.db')
        self.addCleanup(store.close)
        claims = Claims(store, RULES)
        one = claims.claim(request(), parse(pool(1), 'i'), 7.0)
        claims.change(one.id, keep, 7.0)
        claims.change(one.id, keep, 7.0, durable=False)
        claims.follow_clock(1.0)
        self.assertEqual([True, True, False, False], asked)

    def test_deleted_rows_are_overwritten(self):
        store = Store(self.folder / 'claims.db')
        self.addCleanup(store.close)
        with store.read() as db:
            self.assertEqual(1, db.execute('PRAGMA secure_delete').fetchone()[0])

    def test_the_files_are_accessible_only_to_kiln(self):
        self.open_claims().maintain('m1', 'a fan')
        for path in self.folder.iterdir():
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode), path.name)

    def test_an_unusable_directory_or_file_is_named(self):
        with self.assertRaisesRegex(ConfigurationError, 'nowhere/claims.db'):
            Store(self.folder / 'nowhere' / 'claims.db')
        path = self.folder / 'claims.db'
        path.write_text('this is not a database, but it is long enough to be read as one' * 9)
        with self.assertRaisesRegex(ConfigurationError, 'Cannot keep claims in') as caught:
            Store(path)
        self.assertIsInstance(caught.exception.__cause__, sqlite3.Error)

    def test_a_file_of_another_version_is_refused(self):
        self.open_claims()
        with sqlite3.connect(self.folder / 'claims.db') as db:
            db.execute('PRAGMA user_version = 9')
        db.close()
        with self.assertRaisesRegex(ConfigurationError, 'it has version 9, not 1'):
            self.open_claims()

    def test_unreadable_claims_are_an_unavailable_service(self):
        store = Store(self.folder / 'claims.db')
        claims = Claims(store, RULES)
        store.close()
        with self.assertRaisesRegex(ServiceUnavailable, 'Cannot use the claims in') as caught:
            claims.all()
        self.assertIsInstance(caught.exception.__cause__, sqlite3.Error)
        store.wipe_log()
