"""The contract for every driver: one entry to hooks, kiln errors, abilities."""

import inspect
import unittest

from kiln.clock import current_deadline
from kiln.compute_drivers.base import CONTRACT_VERSION, AmphoraComputeDriver
from kiln.compute_drivers.calls import Call, Traffic
from kiln.exceptions import (
    AmbiguousInstanceError,
    AmphoraComputeError,
    ConfigurationError,
    DeleteFailed,
    InstanceNotFoundError,
    InvalidRequest,
    Outcome,
    ServiceUnavailable,
    UnsupportedOperation,
    Verdict,
)
from kiln.models import (
    Ability,
    Amphora,
    AmphoraType,
    BuildRequest,
    InjectedFile,
    Limits,
    Resource,
    State,
)
from kiln.testing.clock import VirtualClock
from tests.unit.memory_driver import MemoryDriver


def _echo(call):
    def hook(self, *args):
        self.on_hook(call.hook, *args)
        return (call.label, *args)

    return hook


#: Has every ability, and returns the arguments of each hook.
AbleDriver = type(
    'AbleDriver', (MemoryDriver,), {call.hook: _echo(call) for call in Call if call.ability}
)

RESOURCE = Resource(kind='port', id='port-1', owner='kiln')

#: Each optional call: its public form, and the arguments of its hook.
PASSED_ON = (
    ('suspend', ('id-1',), {}, ('id-1',)),
    ('resume', ('id-1',), {}, ('id-1',)),
    ('reboot', ('id-1',), {}, ('id-1', False)),
    ('reboot', ('id-1',), {'hard': 1}, ('id-1', True)),
    ('rebuild', ('id-1',), {}, ('id-1', None)),
    ('rebuild', ('id-1',), {'image_id': 'i'}, ('id-1', 'i')),
    ('attach_port', ('id-1', 'p'), {}, ('id-1', 'p')),
    ('detach_port', ('id-1', 'p'), {}, ('id-1', 'p')),
    ('attach_network', ('id-1', 'n'), {}, ('id-1', 'n', None)),
    ('attach_network', ('id-1', 'n'), {'address': '10.0.0.5'}, ('id-1', 'n', '10.0.0.5')),
    ('detach_network', ('id-1', 'n'), {}, ('id-1', 'n')),
    ('create_server_group', ('g', 'affinity'), {}, ('g', 'affinity')),
    ('delete_server_group', ('g',), {}, ('g',)),
    ('validate_flavor', ('small',), {}, ('small',)),
    ('validate_image', ('i',), {}, ('i',)),
    ('validate_zone', ('a',), {}, ('a',)),
    ('validate_network', ('n',), {}, ('n',)),
    ('validate_security_group', ('g',), {}, ('g',)),
    ('check_ports', (['g'], ['22/tcp']), {}, (('g',), ('22/tcp',), None)),
    ('check_ports', (['g'], []), {'peers': ['h', 'i']}, (('g',), (), ('h', 'i'))),
    ('check_ports', ([], ['65535/udp'], []), {}, ((), ('65535/udp',), ())),
    ('describe_image', ('i',), {}, ('i',)),
    ('list_zones', (), {}, ()),
    ('list_resources', (), {}, ('kiln',)),
    ('list_resources', ('me',), {}, ('me',)),
    ('delete_resource', (RESOURCE,), {}, (RESOURCE,)),
    ('console_log', ('id-1',), {}, ('id-1', None)),
    ('console_log', ('id-1',), {'lines': 5}, ('id-1', 5)),
    ('claim', ('id-1', 'k'), {}, ('id-1', 'k')),
    ('claim', (), {'amphora_id': 'id-1', 'build_key': 'k'}, ('id-1', 'k')),
)


class FoundingNoteTest(unittest.TestCase):
    def test_the_four_methods_keep_their_names_order_and_defaults(self):
        defaults = {
            'build': {
                'amphora_type': AmphoraType.VM, 'amphora_flavor': None, 'image_id': None,
                'keys': None, 'sec_groups': None, 'network_ids': None,
                'config_drive_files': None, 'user_data': None,
            },
            'delete': {'amphora_id': inspect.Parameter.empty},
            'status': {'amphora_id': inspect.Parameter.empty},
            'get_amphora': {'amphora_name': None, 'amphora_id': None},
        }  # fmt: skip
        for name, expected in defaults.items():
            with self.subTest(name):
                parameters = inspect.signature(getattr(MemoryDriver(), name)).parameters.values()
                self.assertEqual(
                    {p.name: p.default for p in parameters if p.kind is not p.KEYWORD_ONLY},
                    expected,
                )
                self.assertEqual(
                    [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY], list(expected)
                )

    def test_a_caller_of_2014_can_build_with_positional_arguments(self):
        driver, seen = MemoryDriver(), []
        driver.on_hook = lambda hook, request: seen.append(request)
        driver.build('vm', 'small', 'image', ['key'], ['group'], ['net'], {'/a': 'x'}, 'data')
        (request,) = seen
        self.assertEqual(
            (request.flavor, request.image_id, request.keys, request.sec_groups),
            ('small', 'image', ('key',), ('group',)),
        )
        self.assertEqual((request.network_ids, request.user_data), (('net',), b'data'))


class DoorTest(unittest.TestCase):
    def test_each_call_passes_its_arguments_and_defaults_to_its_hook(self):
        driver, seen = AbleDriver(), []
        driver.on_hook = lambda *asked: seen.append(asked)
        for name, args, keywords, expected in PASSED_ON:
            with self.subTest(name, args=args, keywords=keywords):
                seen.clear()
                getattr(driver, name)(*args, **keywords)
                self.assertEqual(seen, [(f'_{name}', *expected)])

    def test_each_argument_of_a_build_reaches_its_hook(self):
        given = {
            'amphora_type': 'container',
            'amphora_flavor': 'small',
            'image_id': 'image',
            'keys': ['key'],
            'sec_groups': ['group'],
            'network_ids': ['net'],
            'config_drive_files': {'/a': 'x'},
            'user_data': 'data',
            'name': 'web',
            'build_key': 'web-1',
            'port_ids': ['port'],
            'availability_zone': 'az1',
            'server_group_id': 'apart',
            'metadata': {'role': 'lb'},
        }
        expected = BuildRequest(
            build_key='web-1',
            name='web',
            made_name='amphora-web-1',
            owner='kiln',
            amphora_type=AmphoraType.CONTAINER,
            flavor='small',
            image_id='image',
            keys=('key',),
            sec_groups=('group',),
            network_ids=('net',),
            port_ids=('port',),
            availability_zone='az1',
            server_group_id='apart',
            metadata={'role': 'lb'},
            files=(InjectedFile(path='/a', content=b'x'),),
            user_data=b'data',
        )
        arguments = inspect.signature(AmphoraComputeDriver.build).parameters.keys()
        self.assertEqual(arguments - {'self', 'timeout'}, given.keys())

        class Contained(MemoryDriver):
            limits = Limits(amphora_types=frozenset(AmphoraType))

        driver, seen = Contained(), []
        driver.on_hook = lambda hook, request: seen.append(request)
        driver.build(**given)
        self.assertEqual([expected], seen)

    def test_the_tests_above_cover_every_ability(self):
        self.assertEqual(
            {name for name, *_ in PASSED_ON}, {ability.value for ability in Ability}
        )  # fmt: skip

    def test_a_lazy_result_is_read_within_perform(self):
        class Paging(MemoryDriver):
            def _list(self, owner):
                yield Amphora(id='id-1', name='a', state=State.ACTIVE)
                raise ZeroDivisionError('page 2')

        with self.assertRaisesRegex(AmphoraComputeError, 'ZeroDivisionError: page 2'):
            Paging().list_amphorae()

    def test_a_deadline_bounds_the_hooks_of_build_and_delete(self):
        clock = VirtualClock()
        driver, seen = MemoryDriver(clock), []
        driver.on_hook = lambda *_: seen.append(current_deadline())
        driver.build(timeout=5)
        clock.advance(1)
        driver.delete('id-1', timeout=3)
        driver.build()
        self.assertEqual([d and d.at for d in seen], [5, 4, None])

    def test_statuses_of_no_ids_make_no_call(self):
        driver = MemoryDriver()
        driver.on_hook = self.fail
        self.assertEqual(driver.statuses([]), {})


class ErrorsTest(unittest.TestCase):
    def setUp(self):
        self.driver = MemoryDriver()

    def raised(self, error, call, *args):
        def fail(*_):
            raise error

        self.driver.on_hook = fail
        with self.assertRaises(Exception) as caught:
            getattr(self.driver, call)(*args)
        return caught.exception

    def test_deleting_a_missing_amphora_succeeds(self):
        def fail(*_):
            raise InstanceNotFoundError('Not found.')

        self.driver.on_hook = fail
        self.assertIsNone(self.driver.delete('id-9'))

    def test_a_drivers_kiln_error_is_raised_with_its_backend_and_call(self):
        error = ServiceUnavailable('Nobody there.')
        self.assertIs(self.raised(error, 'status', 'id-1'), error)
        self.assertEqual((error.backend, error.operation), ('east', 'status'))

    def test_facts_that_an_error_has_are_kept(self):
        error = ServiceUnavailable('Nobody there.', backend='east-2', operation='login')
        self.raised(error, 'status', 'id-1')
        self.assertEqual((error.backend, error.operation), ('east-2', 'login'))

    def test_a_kiln_error_that_is_not_a_backends_is_raised_unchanged(self):
        error = ConfigurationError('No such endpoint.')
        self.assertIs(self.raised(error, 'status', 'id-1'), error)

    def test_a_foreign_error_is_raised_as_a_kiln_error_with_its_cause(self):
        cause = KeyError('id')
        error = self.raised(cause, 'status', 'id-1')
        self.assertIs(type(error), AmphoraComputeError)
        self.assertIs(error.__cause__, cause)
        self.assertEqual(
            str(error),
            "Cannot read the status of id-1: driver 'east' failed with KeyError: 'id'. "
            'This is a defect of the driver.',
        )
        self.assertEqual((error.outcome, error.circuit), (Outcome.UNKNOWN, Verdict.FAILURE))
        self.assertEqual((error.backend, error.operation, error.amphora_id),
                         ('east', 'status', 'id-1'))  # fmt: skip

    def test_a_foreign_error_of_a_delete_is_a_failed_delete_of_unknown_outcome(self):
        error = self.raised(KeyError('id'), 'delete', 'id-1')
        self.assertIs(type(error), DeleteFailed)
        self.assertEqual((error.outcome, error.circuit), (Outcome.UNKNOWN, Verdict.FAILURE))

    def test_a_foreign_error_of_a_build_carries_the_key_to_look_for(self):
        def fail(*_):
            raise KeyError('id')

        self.driver.on_hook = fail
        with self.assertRaisesRegex(AmphoraComputeError, '^Cannot build: driver') as caught:
            self.driver.build(build_key='lb-7')
        self.assertEqual((caught.exception.build_key, caught.exception.amphora_id), ('lb-7', None))

    def test_a_hook_found_missing_is_a_missing_ability(self):
        error = self.raised(NotImplementedError(), 'status', 'id-1')
        self.assertIs(type(error), UnsupportedOperation)
        self.assertIsInstance(error.__cause__, NotImplementedError)

    def test_an_interrupt_is_raised_unchanged(self):
        interrupt = KeyboardInterrupt()
        self.driver.on_hook = lambda *_: (_ for _ in ()).throw(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.driver.status('id-1')


class AbilitiesTest(unittest.TestCase):
    def test_a_driver_has_the_abilities_whose_hooks_it_overrides(self):
        class Suspender(MemoryDriver):
            def _suspend(self, amphora_id):
                """Suspend."""

        class AndMore(Suspender):
            def _resume(self, amphora_id):
                """Resume."""

        self.assertEqual(MemoryDriver().abilities, frozenset())
        self.assertEqual(Suspender().abilities, {Ability.SUSPEND})
        self.assertEqual(AndMore().abilities, {Ability.SUSPEND, Ability.RESUME})
        self.assertEqual(AbleDriver().abilities, frozenset(Ability))

    def test_a_driver_without_abilities_refuses_each_without_a_call(self):
        driver = MemoryDriver()
        driver.on_hook = self.fail
        for name, args, keywords, _ in PASSED_ON:
            with self.subTest(name):
                with self.assertRaises(NotImplementedError) as caught:
                    getattr(driver, name)(*args, **keywords)
                error = caught.exception
                self.assertIs(type(error), UnsupportedOperation)
                self.assertEqual(
                    str(error),
                    f"Cannot {name}: driver 'east' lacks this ability (it has: nothing optional).",
                )
                self.assertEqual((error.backend, error.operation), ('east', name))

    def test_an_instance_can_lack_an_ability_of_its_class(self):
        driver = AbleDriver()
        driver.missing_abilities = frozenset(Ability) - {Ability.REBOOT, Ability.CONSOLE_LOG}
        with self.assertRaisesRegex(UnsupportedOperation, r'\(it has: console_log, reboot\)'):
            driver.suspend('id-1')
        self.assertEqual(driver.capabilities().abilities, {Ability.REBOOT, Ability.CONSOLE_LOG})

    def test_refusal_returns_the_error_without_a_call(self):
        driver = MemoryDriver()
        for call in Call:
            refusal = driver.refusal(call)
            self.assertEqual(type(refusal), UnsupportedOperation if call.ability else type(None))
        self.assertEqual({AbleDriver().refusal(call) for call in Call}, {None})

    def test_capabilities_are_plain_data(self):
        capabilities = MemoryDriver().capabilities()
        self.assertEqual(capabilities.driver, 'east')
        self.assertEqual((capabilities.abilities, capabilities.limits), (frozenset(), Limits()))


class FindingTest(unittest.TestCase):
    def setUp(self):
        self.driver = MemoryDriver()
        self.ids = [self.driver.build(name=name) for name in ('web', 'db', 'db')]

    def test_an_amphora_is_found_by_name_or_id_or_both(self):
        for name, amphora_id in (('web', None), (None, 'id-1'), ('web', 'id-1')):
            self.assertEqual(self.driver.get_amphora(name, amphora_id).id, 'id-1')

    def test_if_two_match_none_is_chosen_and_both_are_named(self):
        with self.assertRaisesRegex(
            AmbiguousInstanceError, "'db': 2 amphorae .*: id-2, id-3"
        ) as caught:
            self.driver.get_amphora('db')
        self.assertEqual(caught.exception.backend, 'east')

    def test_an_id_with_another_name_is_not_found_and_that_name_is_reported(self):
        with self.assertRaisesRegex(InstanceNotFoundError, "Id id-1 is called 'web'"):
            self.driver.get_amphora('db', 'id-1')

    def test_an_unknown_name_is_not_found(self):
        with self.assertRaisesRegex(InstanceNotFoundError, "Cannot find 'mail': 'east' has no"):
            self.driver.get_amphora('mail')

    def test_a_look_up_without_name_and_id_is_an_invalid_request(self):
        with self.assertRaisesRegex(InvalidRequest, 'give its name or its id'):
            self.driver.get_amphora()


class OpeningTest(unittest.TestCase):
    def test_an_opened_driver_has_options_name_owner_and_clock(self):
        class Configured(MemoryDriver):
            def __init__(self, conf):
                super().__init__()
                self.conf = conf

        clock, conf = VirtualClock(), object()
        driver = Configured.open(conf, name='west', owner='me', clock=clock)
        self.assertEqual((driver.name, driver.owner), ('west', 'me'))
        self.assertIs(driver.clock, clock)
        self.assertIs(driver.conf, conf)
        self.assertEqual(driver.contract_version, CONTRACT_VERSION)
        self.assertIsNone(driver.close())

    def test_a_vendor_must_write_four_hooks_and_the_limits(self):
        self.assertEqual(
            AmphoraComputeDriver.__abstractmethods__,
            {'_build', '_delete', '_get', '_list', 'limits'},
        )


class CallTableTest(unittest.TestCase):
    def test_every_call_names_a_hook_of_the_contract_and_is_labelled_after_it(self):
        for call in Call:
            with self.subTest(call.name):
                self.assertTrue(callable(getattr(AmphoraComputeDriver, call.hook)))
                self.assertEqual(call.hook, f'_{call.label}')
                self.assertEqual(call.label.upper(), call.name)

    def test_every_ability_belongs_to_one_call_of_its_name(self):
        self.assertEqual(
            {call.label: call.ability.value for call in Call if call.ability},
            {ability.value: ability.value for ability in Ability},
        )

    def test_every_read_is_repeatable(self):
        self.assertTrue(all(call.repeatable for call in Call if call.traffic is Traffic.READ))

    def test_a_build_is_never_repeatable(self):
        self.assertFalse(any(call.repeatable for call in Call if call.traffic is Traffic.BUILD))
