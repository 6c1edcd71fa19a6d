"""Behaviours of errors: facts that a program can act on, and no secrets."""

from __future__ import annotations

import contextlib
import json
import pickle
import re

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    BuildDiffers,
    InstanceNotFoundError,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    ResourceNotFoundError,
    UnsupportedOperation,
    Verdict,
)
from kiln.models import Ability, Amphora, ComputeStatus, Resource
from kiln.testing.conformance.behaviours.planted import FILE, KEY, USER_DATA
from kiln.testing.conformance.samples import OF_INSTANCES, ask
from kiln.testing.conformance.secrets import SecretsFixture, everything_logged

#: Ids of as many characters are drawn, and not counted.
_LONG = 20
_DIGIT = re.compile('[0-9a-f]')
_LAST_NUMBER = re.compile('[0-9a-f]+$')
#: Abilities of calls about something that is not an amphora.
_OF_THINGS = frozenset(
    {
        Ability.VALIDATE_FLAVOR,
        Ability.VALIDATE_IMAGE,
        Ability.VALIDATE_ZONE,
        Ability.VALIDATE_NETWORK,
        Ability.VALIDATE_SECURITY_GROUP,
        Ability.CHECK_PORTS,
        Ability.DESCRIBE_IMAGE,
    }
)


class Errors(SecretsFixture, contract=(AmphoraComputeError, AmphoraComputeDriver.status)):
    """Errors and secrets."""

    def test_an_error_carries_the_facts_a_controller_needs(self) -> None:
        error = self.not_found()
        self.assertIsInstance(error.code, str, 'code')
        self.assertIsInstance(error.retryable, bool, 'retryable')
        self.assertIsInstance(error.outcome, Outcome, 'outcome')
        self.assertIsInstance(error.circuit, Verdict, 'circuit')

    def test_the_advice_of_an_error_agrees_with_its_other_facts(self) -> None:
        error = self.not_found()
        self.assertIsInstance(error.advice, Advice, 'advice')
        self.assertEqual(error.advice.again, error.retryable, 'advice.again, as retryable')

    def test_an_error_names_its_backend_and_operation(self) -> None:
        error = self.not_found()
        self.assertEqual(error.backend, self.driver.name, 'backend')
        self.assertTrue(error.operation, 'operation names the call')

    def test_an_error_names_its_subject(self) -> None:
        unknown = self.unknown_id()
        error = self.not_found(unknown)
        self.assertIn(unknown, (error.amphora_id, *str(error).replace(':', ' ').split()))

    def test_an_error_is_plain_data_on_request(self) -> None:
        facts = self.not_found().to_dict()
        self.assertEqual(json.loads(json.dumps(facts)), facts)

    def test_an_error_survives_pickling(self) -> None:
        error = self.not_found()
        copied = pickle.loads(pickle.dumps(error))  # noqa: S301  # made here
        self.assertIs(type(copied), type(error))
        self.assertEqual(copied.to_dict(), error.to_dict())

    def test_not_found_says_that_the_backend_is_well_and_did_nothing(self) -> None:
        error = self.not_found()
        self.assertIs(error.outcome, Outcome.NOT_APPLIED, 'outcome')
        self.assertIs(error.circuit, Verdict.SUCCESS, 'circuit')
        self.assert_retryable(error, 'status() of an unknown instance', retryable=False)

    def test_a_wrong_request_says_that_nothing_was_done(self) -> None:
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.build(amphora_flavor=7)
        self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED, 'outcome')
        self.assertIs(caught.exception.circuit, Verdict.NEUTRAL, 'circuit')
        self.assert_retryable(caught.exception, 'a wrong build', retryable=False)

    def test_each_call_about_an_unknown_instance_raises_the_same_error(self) -> None:
        unknown = self.unknown_id()
        for ability in sorted(OF_INSTANCES & self.driver.abilities):
            with self.assertRaises(InstanceNotFoundError, msg=f'{ability.value}()') as caught:
                ask(self.driver, ability, unknown)
            error = caught.exception
            self.assertEqual(error.amphora_id, unknown, f'amphora_id, in {ability.value}()')
            self.assertEqual(error.operation, ability.value, 'operation')
            self.assertIs(error.outcome, Outcome.NOT_APPLIED, f'outcome, in {ability.value}()')
            self.assert_retryable(error, f'{ability.value}()', retryable=False)

    def test_the_error_of_a_call_about_something_else_names_it(self) -> None:
        unknown = self.unknown_id()
        for ability in sorted(_OF_THINGS & self.driver.abilities):
            try:
                ask(self.driver, ability, unknown)
            except UnsupportedOperation:
                # Another behaviour judges that an ability is no more than that.
                continue
            except AmphoraComputeError as exc:
                named = f'resource_id, in {ability.value}()'
                self.assertEqual(exc.resource_id, unknown, named)
        if Ability.DELETE_RESOURCE in self.driver.abilities:
            other = Resource(kind='no-such-kind', id=unknown, owner=self.driver.owner)
            # It might be gone already, as far as the backend can know.
            with contextlib.suppress(ResourceNotFoundError):
                try:
                    self.driver.delete_resource(other)
                except InvalidRequest as exc:
                    self.assertEqual(exc.resource_id, unknown, 'resource_id, of another kind')

    def test_an_id_that_the_backend_has_not_returned_is_not_found(self) -> None:
        amphora_id = self.build_active()
        others = [one for one in other_forms(amphora_id) if one != amphora_id]
        for other in others:
            with self.assertRaises(InstanceNotFoundError, msg=f'status() of {other}') as caught:
                self.driver.status(other)
            self.assertEqual(caught.exception.amphora_id, other, 'amphora_id of the error')
            self.driver.delete(other)
        found = self.driver.statuses([*others, amphora_id])
        self.assertEqual(set(found), {amphora_id}, 'the ids of statuses()')
        self.settle(amphora_id)

    def test_no_secret_is_logged(self) -> None:
        with everything_logged() as written:
            amphora_id = self.build_with_secrets()
            self.both(amphora_id)
            self.driver.delete(amphora_id)
        self.assert_no_secret_in_log(written)

    def test_no_secret_is_shown_by_what_is_returned(self) -> None:
        amphora_id = self.build_with_secrets()
        described, status = self.both(amphora_id)
        listed = [one for one in self.driver.list_amphorae() if one.id == amphora_id]
        statuses = self.driver.statuses([amphora_id]).values()
        values: list[Amphora | ComputeStatus] = [described, status, *listed, *statuses]
        for value in values:
            kind = type(value).__name__
            self.assert_no_secret(repr(dict(value.raw)), f'raw of {kind}')
            self.assert_no_secret(repr(value), f'a fact of {kind}')

    def test_no_secret_is_in_the_error_of_a_refused_build(self) -> None:
        for wrong in (
            {'user_data': USER_DATA * 10_000},
            {'user_data': USER_DATA, 'amphora_flavor': 7},
            {'config_drive_files': {'/etc/key.pem': FILE, 'not-absolute': FILE}},
            {'config_drive_files': {'/etc/key.pem': (FILE, FILE, FILE)}},
            {'keys': [KEY, KEY]},
        ):
            with self.assertRaises(InvalidBuildRequest) as caught:
                self.build(**wrong)
            self.assert_no_secret_in_error(caught.exception)

    def test_no_secret_is_in_the_error_of_a_key_that_built_something_else(self) -> None:
        key = self.new_key()
        self.build(build_key=key)
        with self.assertRaises(BuildDiffers) as caught:
            self.build_with_secrets(build_key=key, name=self.new_key())
        self.assert_no_secret_in_error(caught.exception)

    def not_found(self, amphora_id: str | None = None) -> AmphoraComputeError:
        """Return an error that any driver can raise: not found."""
        with self.assertRaises(InstanceNotFoundError) as caught:
            self.driver.status(amphora_id or self.unknown_id())
        return caught.exception

    def build_with_secrets(self, **given: str) -> str:
        """Build with a secret in every argument that the backend takes and must not show."""
        taken = self.taken(
            user_data=f'#!/bin/sh\npassword={USER_DATA}\n',
            config_drive_files={'/etc/key.pem': (FILE, 0o600, 'root')},
        )
        return self.build(**taken, **given)


def other_forms(amphora_id: str) -> list[str]:
    """Return texts that are not ids: of other forms, or like an id in a part of it."""
    # The last three are names in the address of a request.
    others = ['no-such-amphora', 'detail', '../amphorae', 'a/b?c=d']
    if len(amphora_id) < _LONG:
        # What is like a short id can be the id of another amphora, of any owner.
        return others
    half = len(amphora_id) // 2
    first, second = amphora_id[:half], amphora_id[half:]
    return [
        *others,
        amphora_id.upper(),
        first,
        f'{amphora_id}0',
        _DIGIT.sub('0', first) + second,
        first + _DIGIT.sub('f', second),
        # A number that is too large for a database.
        _LAST_NUMBER.sub(hex(1 << 63)[2:], amphora_id),
    ]
