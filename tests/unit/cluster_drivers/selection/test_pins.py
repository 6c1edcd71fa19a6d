"""Pins: checks that the driver of a cluster is still installed and unchanged."""

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

    def test_an_unchanged_driver_serves_its_clusters(self):
        found = self.check(HELM, HEAT)
        self.assertEqual((PinState.INTACT, HEAT, ''), (found.state, found.record, found.message))

    def test_001_11_an_old_or_inactive_driver_still_serves_its_clusters(self):
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

    def test_001_13_a_changed_driver_from_another_origin_is_reported(self):
        edited = changed(HEAT, digest='edited', origin='package acme 1')
        self.assertIs(PinState.CHANGED, self.check(edited).state)

    def test_the_same_driver_from_another_origin_is_used_and_reported(self):
        moved = changed(HEAT, origin='package acme 1')
        found = self.check(moved)
        self.assertEqual((PinState.MOVED, moved), (found.state, found.record))
        self.assertIn('package acme 1', found.message)
        # The pinned origin has a different driver now.
        stranger = changed(HEAT, digest='edited')
        self.assertEqual(moved, self.check(stranger, moved).record)
        self.assertEqual(HEAT, self.check(moved, HEAT).record)

    def test_only_the_pinned_origin_is_used_among_several_changed_drivers(self):
        one, two = (changed(HEAT, digest=name, origin=f'package {name} 1') for name in 'ab')
        self.assertIs(PinState.MISSING, self.check(one, two).state)
        home = changed(HEAT, digest='edited')
        self.assertEqual(home, self.check(one, home).record)

    def test_a_missing_version_is_reported_with_the_installed_versions(self):
        found = self.check(changed(HEAT, version='3.0.0'), HELM)
        self.assertEqual((PinState.MISSING, None), (found.state, found.record))
        self.assertIn('Installed versions of k8s_ubuntu_v1: 3.0.0 (directory /usr', found.message)
        self.assertIn('kiln cluster migrate-driver', found.message)
        self.assertIn('Installed versions of k8s_ubuntu_v1: none', self.check(HELM).message)

    def test_a_broken_driver_is_reported_with_its_reason(self):
        for version in ('2.0.1', ''):
            broken = driver(
                HEAT.name, version=version, state='broken', reason='ImportError: no openstack'
            )
            found = self.check(broken)
            self.assertEqual((PinState.BROKEN, None), (found.state, found.record))
            self.assertIn('failed to load: ImportError: no openstack.', found.message)
        unrelated = driver(HEAT.name, version='9.0.0', state='broken', reason='x')
        self.assertIs(PinState.MISSING, self.check(unrelated).state)
