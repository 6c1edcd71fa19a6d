"""Behaviours of abilities and of the shape of the contract."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from kiln.compute_drivers.authoring.bench import Bench
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import AmphoraComputeError, UnsupportedOperation
from kiln.models import Ability, Capabilities, Limits, ServerGroup
from kiln.testing.conformance import form
from kiln.testing.conformance.behaviours.values import plain
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.conformance.samples import OF_INSTANCES, ask

#: Names of options that are a secret themselves, not a file with one or the life of one.
_SECRET = re.compile('(^|_)(password|passphrase|secret|token)$')
#: Seconds by which two clocks can disagree about a short time.
_ROUNDING_S = 0.01


class Abilities(
    ConformanceFixture,
    contract=(AmphoraComputeDriver.capabilities, AmphoraComputeDriver.refusal, ComputeHooks),
):
    """Abilities and shape."""

    def test_capabilities_are_plain_data(self) -> None:
        capabilities = self.driver.capabilities()
        self.assertIs(type(capabilities), Capabilities)
        self.assertIs(type(capabilities.limits), Limits)
        facts = plain(capabilities)
        self.assertEqual(json.loads(json.dumps(facts)), facts)

    def test_capabilities_stay_the_same(self) -> None:
        before = self.driver.capabilities()
        self.build()
        self.assertEqual(self.driver.capabilities(), before)

    def test_capabilities_name_the_driver(self) -> None:
        self.assertEqual(self.driver.capabilities().driver, self.driver.name)

    def test_capabilities_list_the_abilities(self) -> None:
        self.assertEqual(self.driver.capabilities().abilities, self.driver.abilities)
        unknown = self.driver.abilities - frozenset(Ability)
        self.assertEqual(unknown, frozenset(), 'abilities that the contract does not have')

    def test_the_backend_builds_some_type(self) -> None:
        self.assertTrue(self.driver.limits.amphora_types)

    def test_each_ability_the_driver_has_is_answered(self) -> None:
        for ability in sorted(self.driver.abilities):
            try:
                answer = ask(self.driver, ability, self.unknown_id())
            except UnsupportedOperation:
                self.broken(
                    f'{ability.value}(), one of the abilities, is answered', 'UnsupportedOperation'
                )
            except AmphoraComputeError as exc:
                # The root of all errors is for failures that the driver did not foresee.
                kind = f'the error of {ability.value}()'
                self.assertIsNot(type(exc), AmphoraComputeError, kind)
                continue
            if isinstance(answer, ServerGroup):
                self._groups.append(answer.id)

    def test_each_ability_the_driver_lacks_is_refused(self) -> None:
        for ability in sorted(frozenset(Ability) - self.driver.abilities):
            self.assert_refused(ability)

    def test_what_is_lacking_is_refused_whether_or_not_the_instance_exists(self) -> None:
        amphora_id = self.build_active()
        for ability in sorted(OF_INSTANCES - self.driver.abilities):
            with self.assertRaises(UnsupportedOperation, msg=f'{ability.value}()'):
                ask(self.driver, ability, amphora_id)

    def test_a_refusal_is_known_in_advance(self) -> None:
        for call in Call:
            lacking = call.ability is not None and call.ability not in self.driver.abilities
            foretold = self.driver.refusal(call)
            self.assertEqual(
                isinstance(foretold, UnsupportedOperation),
                lacking,
                f'UnsupportedOperation is what refusal() returns for {call.label}',
            )

    def test_an_option_for_a_secret_is_marked_as_one(self) -> None:
        for option in getattr(self.bench.driver, 'options', ()):
            if _SECRET.search(option.name):
                self.assertTrue(option.secret, f'option {option.name} has secret=True')

    def test_the_driver_opens_with_its_bench(self) -> None:
        self.assertIsInstance(self.driver, AmphoraComputeDriver)
        self.assertIsInstance(self.bench, Bench)

    def test_the_driver_is_written_for_this_contract(self) -> None:
        self.assert_form(form.check_version)

    def test_public_methods_have_the_signatures_of_the_contract(self) -> None:
        self.assert_form(form.check_public_methods)

    def test_hooks_have_the_signatures_of_the_contract(self) -> None:
        self.assert_form(form.check_hooks)

    def test_a_health_check_has_values_of_their_types_and_the_time_that_it_took(self) -> None:
        before = [clock.monotonic() for clock in self.clocks]
        health = self.driver.check()
        passed_s = [
            clock.monotonic() - then for clock, then in zip(self.clocks, before, strict=True)
        ]
        self.assertIsInstance(health.healthy, bool, 'healthy')
        self.assertIsInstance(health.detail, str, 'detail')
        self.assertIn(type(health.latency_s), (int, float), 'the type of latency_s')
        self.assertLessEqual(health.latency_s, max(passed_s) + _ROUNDING_S, 'latency_s')
        self.assertGreaterEqual(health.latency_s, 0.0, 'latency_s')
        # In less time, a clock of the driver might not have moved.
        if passed_s[-1] > _ROUNDING_S:
            self.assertNotEqual(health.latency_s, 0.0, 'latency_s')

    def test_closing_again_does_no_harm(self) -> None:
        driver = self.make_driver()
        driver.close()
        driver.close()

    def assert_form(self, check: Callable[[type], None]) -> None:
        """Fail unless the form of the driver is right; it was judged before all behaviours."""
        try:
            check(type(self.driver))
        except form.WrongForm as exc:
            self.fail(str(exc))
