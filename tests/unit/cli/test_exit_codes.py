"""Each class of error has one exit status and one line that helps."""

import unittest

from kiln import exceptions
from kiln.cli.exit_codes import ExitCode, UsageError, code_of, code_of_all, explain

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

    def test_what_kiln_has_no_class_for_is_unforeseen(self):
        self.assertEqual(ExitCode.UNFORESEEN, code_of(ZeroDivisionError()))

    def test_several_failures_of_one_code_are_partial_only_if_some_of_it_was_done(self):
        missing = exceptions.InstanceNotFoundError('x')
        self.assertEqual(ExitCode.OK, code_of_all([], 2))
        self.assertEqual(ExitCode.NOT_FOUND, code_of_all([missing, missing], 2))
        self.assertEqual(ExitCode.PARTIAL, code_of_all([missing], 2))
        self.assertEqual(ExitCode.PARTIAL, code_of_all([missing, UsageError('x')], 2))


class Lines(unittest.TestCase):
    def test_a_message_of_one_sentence_gets_the_remedy_of_its_class(self):
        self.assertEqual(
            'Cannot do x: gone. Check the id or name; the amphora might have been deleted.',
            explain(exceptions.InstanceNotFoundError('Cannot do x: gone')),
        )

    def test_mistakes_in_a_file_of_the_configuration_have_a_line_each(self):
        text = 'Cannot open x: it cannot be used:\nx.toml:1: a is  wrong.\nx.toml:2: b is wrong.'
        self.assertEqual(text.replace('  ', ' '), explain(exceptions.ConfigurationError(text)))

    def test_a_message_that_says_what_to_do_is_left_as_it_is(self):
        text = 'Cannot do x: it is taken. Take another.'
        self.assertEqual(text, explain(exceptions.BuildConflict(text)))

    def test_the_remedy_says_how_long_to_wait(self):
        error = exceptions.RateLimited('Cannot do x: too fast.', retry_after=2.5)
        self.assertEqual('Cannot do x: too fast. Repeat after 2.5 seconds.', explain(error))

    def test_a_pause_that_is_not_known_is_not_printed_as_none(self):
        self.assertIn('after some seconds', explain(exceptions.RateLimited('Cannot do x.')))

    def test_an_open_circuit_says_what_opened_it(self):
        error = exceptions.CircuitOpenError('Circuit a/read is open; repeat in 3.0 s.')
        error.__cause__ = exceptions.ServiceUnavailable('Cannot list: no route.')
        self.assertEqual(
            'Circuit a/read is open; repeat in 3.0 s. It opened because: Cannot list: no route.',
            explain(error),
        )

    def test_several_lines_become_one(self):
        self.assertNotIn('\n', explain(UsageError('a\n  b\nc')))

    def test_a_defect_is_called_one_and_shows_no_secret(self):
        line = explain(RuntimeError('password=hunter2 is wrong'))
        self.assertRegex(line, r'^Unexpected RuntimeError: .* defect of kiln; --debug')
        self.assertNotIn('hunter2', line)

    def test_an_extra_that_is_not_installed_is_no_defect_and_status_2(self):
        error = ModuleNotFoundError("No module named 'sqlalchemy'", name='sqlalchemy')
        self.assertEqual(
            "Cannot continue: Python package 'sqlalchemy' is not installed. "
            "Run: pip install 'kiln-compute[clusters]'.",
            explain(error),
        )
        self.assertEqual(ExitCode.USAGE, code_of(error))

    def test_an_import_that_no_extra_would_mend_is_a_defect(self):
        error = ModuleNotFoundError("No module named 'kiln.wraps'", name='kiln.wraps')
        self.assertRegex(explain(error), 'defect of kiln; --debug')
        self.assertNotIn('pip', explain(error))
        self.assertEqual(ExitCode.UNFORESEEN, code_of(error))

    def test_of_a_driver_that_is_broken_no_extra_is_spoken(self):
        line = explain(exceptions.DriverLoadError('Cannot load compute driver x: no hook'))
        self.assertIn('Repair the driver', line)
        self.assertNotIn('extra', line)

    def test_a_full_disk_is_no_defect(self):
        line = explain(OSError(28, 'No space left on device'))
        self.assertEqual('Cannot continue: [Errno 28] No space left on device.', line)
