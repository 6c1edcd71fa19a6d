"""Whether the driver of a cluster is still there, and still what it was."""

import dataclasses
import unittest

from kiln.cluster_drivers.selection.pins import PinState, check_pin
from kiln.cluster_drivers.selection.selection import pin_of
from tests.unit.cluster_drivers.offered import HEAT, HELM, UBUNTU, driver


def changed(record, **values):
    return dataclasses.replace(record, **values)


class Pins(unittest.TestCase):
    def check(self, *records, pin=HEAT):
        return check_pin(pin_of(pin), records)

    def test_a_driver_that_is_as_it_was_serves_its_clusters(self):
        found = self.check(HELM, HEAT)
        self.assertEqual((PinState.INTACT, HEAT, ''), (found.state, found.record, found.message))

    def test_001_11_it_serves_them_beside_its_newer_version_and_out_of_use(self):
        newer = changed(HEAT, version='3.0.0', digest='new')
        for state in ('active', 'beta', 'disabled', 'conflict'):
            old = driver(
                HEAT.name,
                UBUNTU,
                version=HEAT.version,
                origin=HEAT.origin,
                state=state,
                reason='x',
            )
            self.assertEqual(old, self.check(newer, old).record)

    def test_001_13_a_change_without_a_new_version_is_reported(self):
        edited = changed(HEAT, digest='edited')
        found = self.check(edited)
        self.assertEqual((PinState.CHANGED, edited), (found.state, found.record))
        self.assertEqual(
            'k8s_ubuntu_v1 2.0.1 (directory /usr/share/kiln/drivers/k8s_ubuntu_v1) has changed '
            'without a new version: digest edited, was digest of k8s_ubuntu_v1 2.0.1. '
            'Give the changed driver a new version, and put the former driver back.',
            found.message,
        )

    def test_001_13_a_change_elsewhere_is_one_too(self):
        edited = changed(HEAT, digest='edited', origin='package acme 1')
        self.assertIs(PinState.CHANGED, self.check(edited).state)

    def test_the_same_driver_from_elsewhere_is_taken_and_told(self):
        moved = changed(HEAT, origin='package acme 1')
        found = self.check(moved)
        self.assertEqual((PinState.MOVED, moved), (found.state, found.record))
        self.assertIn('package acme 1', found.message)
        # At home there is a stranger by now.
        stranger = changed(HEAT, digest='edited')
        self.assertEqual(moved, self.check(stranger, moved).record)
        self.assertEqual(HEAT, self.check(moved, HEAT).record)

    def test_of_several_strangers_the_one_at_home_is_taken_or_none(self):
        one, two = (changed(HEAT, digest=name, origin=f'package {name} 1') for name in 'ab')
        self.assertIs(PinState.MISSING, self.check(one, two).state)
        home = changed(HEAT, digest='edited')
        self.assertEqual(home, self.check(one, home).record)

    def test_a_version_that_is_gone_is_missed_with_what_there_is(self):
        found = self.check(changed(HEAT, version='3.0.0'), HELM)
        self.assertEqual((PinState.MISSING, None), (found.state, found.record))
        self.assertIn('Installed versions of k8s_ubuntu_v1: 3.0.0 (directory /usr', found.message)
        self.assertIn('kiln cluster migrate-driver', found.message)
        self.assertIn('Installed versions of k8s_ubuntu_v1: none', self.check(HELM).message)

    def test_a_broken_one_is_told_with_its_reason(self):
        for version in ('2.0.1', ''):
            broken = driver(
                HEAT.name, version=version, state='broken', reason='ImportError: no openstack'
            )
            found = self.check(broken)
            self.assertEqual((PinState.BROKEN, None), (found.state, found.record))
            self.assertIn('failed to load: ImportError: no openstack.', found.message)
        unrelated = driver(HEAT.name, version='9.0.0', state='broken', reason='x')
        self.assertIs(PinState.MISSING, self.check(unrelated).state)
