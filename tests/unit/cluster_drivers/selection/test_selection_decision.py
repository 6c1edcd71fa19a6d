"""Decisions of driver selection: their storage and explanation."""

import json

from kiln.cluster_drivers.selection.request import Request
from kiln.cluster_drivers.selection.selection import explain
from kiln.clusters.exceptions import DriverSelectionError
from tests.unit.cluster_drivers.offered import HEAT, HELM, SelectionCase, driver, image


class Decisions(SelectionCase):
    def test_001_12_the_version_of_the_driver_is_in_the_decision(self):
        found = self.choose(HEAT)
        self.assertEqual('2.0.1', found.pin.version)
        self.assertEqual(
            {
                'name': 'k8s_ubuntu_v1',
                'version': '2.0.1',
                'origin': 'directory /usr/share/kiln/drivers/k8s_ubuntu_v1',
                'digest': 'digest of k8s_ubuntu_v1 2.0.1',
            },
            found.to_dict()['pin'],
        )

    def test_a_decision_can_be_stored_as_json(self):
        ubuntu = image(os_distro='ubuntu', hw_disk_bus='scsi')
        for inputs in ({'image': ubuntu}, {'image': None}):
            found = self.choose(driver('any_v1', ('*', '*', '*')), **inputs)
            self.assertEqual(found.to_dict(), json.loads(json.dumps(found.to_dict())))
        stored = self.choose(HEAT, image=ubuntu).to_dict()
        self.assertEqual({'os_distro': 'ubuntu'}, stored['image']['properties'])

    def test_a_decision_is_explained_step_by_step(self):
        template = Request(coe='kubernetes')
        found = self.choose(
            HEAT, image=image(os_distro='ubuntu'), template=template, request=Request()
        )
        self.assertEqual(
            [
                'distro: ubuntu (property os_distro of image ubuntu-24.04 7c1e)',
                'coe: kubernetes (the template)',
                'server_type: vm (not requested)',
                'wanted: (vm, ubuntu, kubernetes)',
                'driver: not requested by name',
                'candidates: k8s_ubuntu_v1 2.0.1',
                'chosen: k8s_ubuntu_v1 2.0.1 (directory '
                '/usr/share/kiln/drivers/k8s_ubuntu_v1), no other fits as closely',
                'notice: property os_distro of image ubuntu-24.04 7c1e belongs to libosinfo. '
                'Set kiln_distro=ubuntu as well.',
                'pinned: k8s_ubuntu_v1 2.0.1, digest digest of k8s_ubuntu_v1 2.0.1',
            ],
            explain(found),
        )

    def test_a_refusal_is_explained_up_to_the_failed_step(self):
        with self.assertRaises(DriverSelectionError) as caught:
            self.choose(HEAT, HELM, request=Request(coe='kubernetes', server_type='vm'))
        lines = explain(caught.exception)
        self.assertEqual('server_type: vm (the request)', lines[2])
        self.assertEqual('preferences: none for these drivers', lines[-2])
        self.assertRegex(lines[-1], '^error ambiguous_cluster_driver: Several')
