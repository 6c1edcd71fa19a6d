"""Tests of the exit status and the explanation of each class of error."""

import unittest

from kiln import exceptions
from kiln.cli.exit_codes import (
    ExitCode,
    UsageError,
    code_for,
    code_of,
    code_of_all,
    explain,
)
from kiln.clusters.exceptions import InvalidCluster, Problem

EXPECTED = {
    'KilnError': 1,
    'AmphoraComputeError': 1,
    'AmphoraBuildError': 1,
    'BuildFailed': 1,
    'ChangeFailed': 1,
    'BuildNotRunning': 1,
    'BuildVanished': 1,
    'BuildNotFound': 1,
    'ConfigurationError': 2,
    'DriverNotFound': 2,
    'DriverLoadError': 2,
    'DriverConflict': 2,
    'InvalidRequest': 2,
    'InvalidBuildRequest': 2,
    'UserDataTooLarge': 2,
    'InstanceNotFoundError': 3,
    'ResourceNotFoundError': 3,
    'AmbiguousInstanceError': 4,
    'BuildConflict': 4,
    'BuildDiffers': 4,
    'DeleteFailed': 4,
    'InstanceStateConflict': 4,
    'NotSuspendedError': 4,
    'QuotaExceeded': 5,
    'InsufficientCapacity': 5,
    'BuildTimeout': 6,
    'BuildOutcomeUnknown': 6,
    'DeleteTimeout': 6,
    'ComputeServiceError': 6,
    'ServiceUnavailable': 6,
    'ServiceTimeout': 6,
    'RateLimited': 6,
    'CircuitOpenError': 6,
    'OperationRejected': 6,
    'OperationTimeout': 6,
    'AuthenticationFailed': 7,
    'PermissionDenied': 7,
    'UnsupportedOperation': 8,
    'OperationCancelled': 130,
    'ForkedError': 1,
}


class Codes(unittest.TestCase):
    def test_every_error_of_kiln_has_the_code_of_its_class(self):
        kinds = {
            name: kind
            for name, kind in vars(exceptions).items()
            if isinstance(kind, type) and issubclass(kind, exceptions.KilnError)
        }
        self.assertEqual(EXPECTED, {name: code_of(kind('x')) for name, kind in kinds.items()})

    def test_errors_without_a_class_in_kiln_are_unforeseen(self):
        self.assertEqual(ExitCode.UNFORESEEN, code_of(ZeroDivisionError()))

    def test_failures_with_one_code_are_partial_only_if_something_succeeded(self):
        missing = exceptions.InstanceNotFoundError('x')
        self.assertEqual(ExitCode.OK, code_of_all([], 2))
        self.assertEqual(ExitCode.NOT_FOUND, code_of_all([missing, missing], 2))
        self.assertEqual(ExitCode.PARTIAL, code_of_all([missing], 2))
        self.assertEqual(ExitCode.PARTIAL, code_of_all([missing, UsageError('x')], 2))


class Lines(unittest.TestCase):
    def test_a_one_sentence_message_is_followed_by_the_remedy_of_its_class(self):
        self.assertEqual(
            'Cannot do x: gone. Check the id or name; the amphora might have been deleted.',
            explain(exceptions.InstanceNotFoundError('Cannot do x: gone')),
        )

    def test_mistakes_in_a_file_of_the_configuration_have_a_line_each(self):
        text = 'Cannot open x: it cannot be used:\nx.toml:1: a is  wrong.\nx.toml:2: b is wrong.'
        self.assertEqual(text.replace('  ', ' '), explain(exceptions.ConfigurationError(text)))

    def test_the_path_of_a_mistake_is_not_taken_for_the_name_of_a_secret(self):
        problems = [
            Problem(message='it must be text', path='parameters.admin_password', line=4, column=3),
            Problem(message='the shelf needs one', path='credentials'),
            Problem(message='password: hunter22 is too short', path='x'),
        ]
        self.assertEqual(
            'line 4:3: parameters.admin_password: it must be text\n'
            'credentials: the shelf needs one\n'
            'x: password: *** is too short',
            explain(InvalidCluster(problems)),
        )

    def test_a_message_with_a_remedy_is_unchanged(self):
        text = 'Cannot do x: it is taken. Take another.'
        self.assertEqual(text, explain(exceptions.BuildConflict(text)))

    def test_the_remedy_includes_the_wait(self):
        error = exceptions.RateLimited('Cannot do x: too fast.', retry_after=2.5)
        self.assertEqual('Cannot do x: too fast. Repeat after 2.5 seconds.', explain(error))

    def test_an_unknown_wait_is_not_printed_as_none(self):
        self.assertIn('after some seconds', explain(exceptions.RateLimited('Cannot do x.')))

    def test_an_open_circuit_names_its_cause(self):
        error = exceptions.CircuitOpenError('Circuit a/read is open; repeat in 3.0 s.')
        error.__cause__ = exceptions.ServiceUnavailable('Cannot list: no route.')
        self.assertEqual(
            'Circuit a/read is open; repeat in 3.0 s. It opened because: Cannot list: no route.',
            explain(error),
        )

    def test_several_lines_become_one(self):
        self.assertNotIn('\n', explain(UsageError('a\n  b\nc')))

    def test_an_unexpected_error_is_reported_as_a_defect_without_secrets(self):
        line = explain(RuntimeError('password=hunter2 is wrong'))
        self.assertRegex(line, r'^Unexpected RuntimeError: .* defect of kiln; --debug')
        self.assertNotIn('hunter2', line)

    def test_a_code_has_the_status_of_the_class_that_its_own_class_belongs_to(self):
        for code, status in (
            ('driver_not_found', ExitCode.USAGE), ('service_unavailable', ExitCode.UNAVAILABLE),
            ('removal_refused', ExitCode.CONFLICT), ('deadline', ExitCode.UNFORESEEN),
        ):  # fmt: skip
            self.assertEqual(status, code_for(code, ExitCode.UNFORESEEN), code)

    def test_of_very_many_mistakes_the_first_are_told_and_the_others_counted(self):
        problems = [Problem(message=f'unknown key {one}', path='x') for one in range(1000)]
        lines = explain(InvalidCluster(problems)).splitlines()
        self.assertEqual(41, len(lines))
        self.assertEqual('Not shown: 960 more. Correct these first.', lines[-1])
        self.assertEqual(1, len(explain(InvalidCluster(problems[:1])).splitlines()))

    def test_a_missing_extra_is_status_2_and_not_a_defect(self):
        error = ModuleNotFoundError("No module named 'sqlalchemy'", name='sqlalchemy')
        self.assertEqual(
            "Cannot continue: Python package 'sqlalchemy' is not installed. "
            "Run: pip install 'kiln-compute[clusters]'.",
            explain(error),
        )
        self.assertEqual(ExitCode.USAGE, code_of(error))

    def test_an_import_error_that_no_extra_fixes_is_a_defect(self):
        error = ModuleNotFoundError("No module named 'kiln.wraps'", name='kiln.wraps')
        self.assertRegex(explain(error), 'defect of kiln; --debug')
        self.assertNotIn('pip', explain(error))
        self.assertEqual(ExitCode.UNFORESEEN, code_of(error))

    def test_a_broken_driver_names_no_extra(self):
        line = explain(exceptions.DriverLoadError('Cannot load compute driver x: no hook'))
        self.assertIn('Repair the driver', line)
        self.assertNotIn('extra', line)

    def test_a_full_disk_is_not_a_defect(self):
        line = explain(OSError(28, 'No space left on device'))
        self.assertEqual('Cannot continue: [Errno 28] No space left on device.', line)
