"""Behaviours of driver declarations: true, complete, known without opening."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.discovery.contract import contract_violations
from kiln.cluster_drivers.discovery.guide import home_of
from kiln.cluster_drivers.discovery.lint import manifest_of, mistakes_in
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.records import NAME, VERSION
from kiln.cluster_drivers.values import METHODS, Cap
from kiln.clusters.exceptions import MissingCapability
from kiln.clusters.spec import ClusterTemplate, Strategy
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture

_ALIKE = 0.85


class Declaration(ClusterFixture):
    """Declaration."""

    def test_it_keeps_the_contract(self) -> None:
        self.assertEqual([], list(contract_violations(self.driver_class)))

    def test_its_files_have_no_mistakes(self) -> None:
        home = home_of(self.driver_class)
        if manifest_of(home) is not None:
            self.assertEqual([], [str(one) for one in mistakes_in(home)])

    def test_what_it_provides_is_known_without_opening_it(self) -> None:
        known = from_class(self.driver_class).provides
        opened: Any = self.driver_class.open()
        self.assertEqual(known, from_class(type(opened)).provides)

    def test_its_name_and_version_are_well_formed(self) -> None:
        self.assertRegex(self.driver_class.name, f'^{NAME.pattern}$')
        self.assertRegex(self.driver_class.version, f'^{VERSION.pattern}$')

    def test_its_files_and_its_class_agree(self) -> None:
        known = from_class(self.driver_class)
        written = manifest_of(home_of(self.driver_class))
        if written is not None:
            self.assertEqual(known, written.filled_by(known))

    def test_it_can_do_what_it_overrides_and_nothing_else(self) -> None:
        overridden = {
            cap
            for cap, name in METHODS.items()
            if getattr(self.driver_class, name) is not getattr(ClusterDriver, name)
        }
        by_engine = self.driver_class._by_engine
        can = (overridden | by_engine) - self.driver_class.missing_capabilities
        self.assertEqual(can, self.driver_class.capabilities)

    def test_missing_capabilities_are_refused_before_anything_is_done(self) -> None:
        opened = self.driver_class.open()
        for cap in sorted(set(METHODS) - self.driver_class.capabilities - {Cap.MONITOR}):
            name = METHODS[cap]
            with self.subTest(name), self.assertRaises(MissingCapability) as caught:
                getattr(opened, name)(**self.asked(opened), **_arguments(name))
            self.assertIn(self.driver_class.name, str(caught.exception))

    def test_no_method_is_named_almost_like_a_member_of_the_contract(self) -> None:
        members = {name for name in dir(NodeClusterDriver) if not name.startswith('_')}
        for name, value in inspect.getmembers(self.driver_class, callable):
            if name.startswith('_') or name in members:
                continue
            near = difflib.get_close_matches(name, members, n=1, cutoff=_ALIKE)
            self.assertEqual([], near, f'{value!r} is never called; did you mean {near}?')

    def test_it_can_be_opened_repeatedly(self) -> None:
        first, second = self.driver_class.open(), self.driver_class.open()
        self.assertIsNot(first, second)
        if isinstance(first, NodeClusterDriver) and isinstance(second, NodeClusterDriver):
            self.assertEqual(first.template_definition.digest, second.template_definition.digest)

    def test_its_verbs_document_their_effect_and_parameters(self) -> None:
        for name, verb in self.driver_class.verbs.items():
            with self.subTest(name):
                self.assertTrue(verb.help, 'set help to what the verb does')
                for one in verb.parameters:
                    self.assertEqual([], list(one.contradictions()), one.name)


def _arguments(name: str) -> dict[str, Any]:
    group = samples.group(1)
    more: dict[str, dict[str, Any]] = {
        'resize_cluster': {'nodegroup': group, 'node_count': 1},
        'upgrade_cluster': {
            'cluster_template': ClusterTemplate(name='kit'), 'nodegroups': [group],
            'strategy': Strategy(),
        },
    }  # fmt: skip
    return more.get(name, {})
