"""Argument rules: each has a clear message, and applies before a hook is called."""

import io
import math
import pathlib
import tempfile
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute.facade import Compute
from kiln.compute_drivers import validation
from kiln.exceptions import InvalidBuildRequest, InvalidRequest, UserDataTooLarge
from kiln.models import AmphoraType, InjectedFile, Limits, Resource, State
from tests.unit.memory_driver import MemoryDriver

LIMITS = Limits()
KIB = 1024
SECRET = 'Tr0ub4dor-and-3-horses'


def built(limits=LIMITS, **arguments):
    return validation.build_request(limits, arguments, owner='kiln')


#: A refused build: its arguments, and the expected message.
REFUSED = (
    (
        {'amphora_type': 'mainframe'},
        r"amphora_type must be one of vm on this backend, not 'mainframe'",
    ),
    ({'amphora_type': None}, r'amphora_type must be one of vm on this backend, not None'),
    ({'amphora_type': 'container'}, r'this backend does not build container, only vm'),
    ({'amphora_flavor': 7}, r'amphora_flavor must be a string, not int'),
    ({'amphora_flavor': ''}, r'amphora_flavor is empty or has spaces around it'),
    ({'image_id': ' i '}, r'image_id is empty or has spaces around it'),
    ({'image_id': 'i' * 256}, r'image_id has 256 characters; at most 255'),
    ({'availability_zone': 'a\0b'}, r'availability_zone has a character that cannot be printed'),
    ({'server_group_id': 'a\nb'}, r'server_group_id has a character that cannot be printed'),
    ({'name': 'n' * 256}, r'name has 256 characters; at most 255'),
    ({'name': b'web'}, r'name must be a string, not bytes'),
    ({'build_key': ''}, r"build_key must be 1 to 48 letters, .* not ''"),
    ({'build_key': 'k' * 49}, r'build_key must be 1 to 48 letters'),
    ({'build_key': 'a/b'}, r"build_key must be .* not 'a/b' \(str\)"),
    ({'build_key': '-a'}, r"build_key must be .* not '-a'"),
    ({'build_key': 'a\n'}, r'build_key must be'),
    ({'build_key': 7}, r'build_key must be .* not 7 \(int\)'),
    ({'keys': 'ops'}, r'keys must be a list of strings, not str'),
    ({'sec_groups': b'web'}, r'sec_groups must be a list of strings, not bytes'),
    ({'network_ids': 7}, r'network_ids must be a list of strings, not int'),
    ({'network_ids': ['a', '']}, r'network_ids\[1\] is empty'),
    ({'port_ids': ['a', None]}, r'port_ids\[1\] must be a string, not NoneType'),
    ({'port_ids': ['a', 'b', 'a']}, r'port_ids names something twice'),
    ({'metadata': [('a', 'b')]}, r'metadata must be a mapping of strings, not list'),
    ({'metadata': {str(i): '' for i in range(129)}}, r'metadata has 129 items; at most 128'),
    ({'metadata': {7: 'a'}}, r'a metadata key must be a string, not int'),
    ({'metadata': {'': 'a'}}, r'a metadata key is empty'),
    ({'metadata': {'kiln:owner': 'me'}}, r"metadata key 'kiln:owner' is reserved"),
    ({'metadata': {'a': 7}}, r"metadata 'a' must be a string of at most 255"),
    ({'metadata': {'a': '\ud800'}}, r"metadata 'a' must be a string of at most 255"),
    ({'metadata': {'a': 'b' * 256}}, r"metadata 'a' must be a string of at most 255"),
    ({'config_drive_files': ['/a']}, r'config_drive_files must map paths to contents, not list'),
    ({'config_drive_files': {f'/{i}': '' for i in range(6)}}, r'has 6 entries; at most 5'),
    ({'config_drive_files': {'etc/a': ''}}, r"must be absolute and name a file, not 'etc/a'"),
    ({'config_drive_files': {'/etc/': ''}}, r"must be absolute and name a file, not '/etc/'"),
    ({'config_drive_files': {7: ''}}, r'must be absolute and name a file, not 7'),
    ({'config_drive_files': {'/a/../b': ''}}, r"path '/a/../b' must not lead upwards"),
    ({'config_drive_files': {'/a\0': ''}}, r'path has a character that cannot be printed'),
    ({'config_drive_files': {'/a': None}}, r'file /a must be a string, bytes or a file'),
    ({'config_drive_files': {'/a': ('', 0o600)}}, r'/a must be its content, or \(content, mode'),
    ({'config_drive_files': {'/a': ('', '600', 'root')}}, r'with a mode such as 0o600'),
    ({'config_drive_files': {'/a': ('', 0o10000, 'root')}}, r'with a mode such as 0o600'),
    ({'config_drive_files': {'/a': ('', True, 'root')}}, r'with a mode such as 0o600'),
    ({'config_drive_files': {'/a': ('', -1, 'root')}}, r'with a mode such as 0o600'),
    ({'config_drive_files': {'/a': ('', 0o600, '')}}, r'the owner of /a is empty'),
    ({'config_drive_files': {'/a': (None, 0o600, 'root')}}, r'file /a must be a string, bytes'),
    ({'user_data': 7}, r'user_data must be a string, bytes or a file, not int'),
    ({'user_data': '\ud800'}, r'user_data cannot be read \(UnicodeEncodeError\)'),
)

#: The same, for contents that are too large.
TOO_LARGE = (
    ({'config_drive_files': {'/a': 'x' * (10 * KIB + 1)}}, r'file /a is larger than 10240 bytes'),
    ({'config_drive_files': {'/a': b'x' * (10 * KIB + 1)}}, r'file /a is larger than 10240'),
    ({'config_drive_files': {'/a': 'é' * (5 * KIB + 1)}}, r'file /a is larger than 10240 bytes'),
    ({'user_data': 'x' * 49_150}, r'user_data is larger than 49149 bytes'),
)


class RefusedBuildsTest(unittest.TestCase):
    def test_each_rule_names_the_invalid_argument(self):
        for arguments, message in (*REFUSED, *TOO_LARGE):
            with self.subTest(message):
                with self.assertRaisesRegex(InvalidBuildRequest, message) as caught:
                    built(**arguments)
                self.assertTrue(str(caught.exception).startswith('Cannot build: '))
                self.assertTrue(str(caught.exception).endswith('.'))

    def test_too_large_content_has_its_own_error(self):
        for arguments, message in TOO_LARGE:
            with self.subTest(message), self.assertRaisesRegex(UserDataTooLarge, message):
                built(**arguments)

    def test_an_invalid_build_calls_no_hook(self):
        driver = MemoryDriver()
        driver.on_hook = self.fail
        for arguments, message in (*REFUSED, *TOO_LARGE):
            with self.subTest(message), self.assertRaises(InvalidBuildRequest):
                driver.build(**arguments)

    def test_an_unsupported_option_is_refused(self):
        limits = Limits(
            refused_options=frozenset({'amphora_flavor', 'config_drive_files', 'port_ids'})
        )
        for arguments in (
            {'amphora_flavor': 'small'},
            {'config_drive_files': {'/a': ''}},
            {'port_ids': ['p-1']},
        ):
            (option,) = arguments
            with (
                self.subTest(option),
                self.assertRaisesRegex(InvalidBuildRequest, f'does not support {option}'),
            ):
                built(limits, **arguments)
        self.assertEqual(built(limits, image_id='i').image_id, 'i')

    def test_an_invalid_owner_is_refused(self):
        for owner in ('', 'a b', 'o' * 33, '-a', None, 'a/b'):
            with self.subTest(owner), self.assertRaisesRegex(InvalidRequest, 'must be 1 to 32'):
                validation.build_request(LIMITS, {}, owner=owner)
        self.assertEqual(validation.check_owner('o' * 32), 'o' * 32)


class AcceptedBuildsTest(unittest.TestCase):
    def test_five_files_of_ten_kibibytes_are_accepted(self):
        files = {f'/etc/{i}': 'x' * (10 * KIB) for i in range(5)}
        request = built(config_drive_files=files)
        self.assertEqual([len(file.content) for file in request.files], [10 * KIB] * 5)
        self.assertEqual([file.path for file in request.files], list(files))

    def test_a_content_can_be_text_bytes_or_a_file_of_either(self):
        for content in ('é\n', 'é\n'.encode(), bytearray('é\n'.encode()),
                        io.StringIO('é\n'), io.BytesIO('é\n'.encode())):  # fmt: skip
            with self.subTest(type(content).__name__):
                request = built(user_data=content)
                self.assertEqual(request.user_data, b'\xc3\xa9\n')
                self.assertIs(type(request.user_data), bytes)

    def test_a_file_can_set_mode_and_owner_or_has_defaults(self):
        request = built(config_drive_files={'/a': ('x', 0o600, 'haproxy'), '/b': io.BytesIO(b'y')})
        self.assertEqual(
            request.files,
            (
                InjectedFile(path='/a', content=b'x', mode=0o600, owner='haproxy'),
                InjectedFile(path='/b', content=b'y', mode=0o644, owner='root'),
            ),
        )

    def test_a_too_large_file_is_read_only_up_to_the_limit(self):
        class Endless:
            asked = 0

            def read(self, size):
                self.asked += size
                return b'x' * size

        endless = Endless()
        with self.assertRaises(UserDataTooLarge):
            built(config_drive_files={'/dev/zero': endless})
        self.assertEqual(endless.asked, 10 * KIB + 1)

    def test_an_unreadable_file_is_an_invalid_argument_and_its_content_is_not_shown(self):
        closed = io.StringIO(SECRET)
        closed.close()
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'latin')
        path.write_bytes(SECRET.encode() + b'\xff')
        latin = self.enterContext(path.open(encoding='utf-8'))
        unwritten = self.enterContext(pathlib.Path(path).open('ab'))
        for content, kind in (
            (closed, 'ValueError'),
            (latin, 'UnicodeDecodeError'),
            (unwritten, 'UnsupportedOperation'),
            (f'{SECRET}\ud800', 'UnicodeEncodeError'),
        ):
            with self.subTest(kind):
                with self.assertRaisesRegex(InvalidBuildRequest, rf'/a cannot be read \({kind}\)'
                                            ) as caught:  # fmt: skip
                    built(config_drive_files={'/a': content})
                self.assertNotIn(SECRET, str(caught.exception))
                self.assertIsNone(caught.exception.__cause__)

    def test_omitted_arguments_are_absent(self):
        request = built()
        self.assertEqual(request.amphora_type, AmphoraType.VM)
        self.assertEqual((request.flavor, request.image_id, request.user_data), (None, None, None))
        self.assertEqual((request.keys, request.sec_groups, request.files), ((), (), ()))
        self.assertEqual(dict(request.metadata), {})

    def test_a_build_without_a_key_gets_a_drawn_key_and_a_name_from_it(self):
        first, second = built(), built()
        self.assertNotEqual(first.build_key, second.build_key)
        self.assertEqual(first.name, f'amphora-{first.build_key}')

    def test_a_generated_name_fits_the_backend(self):
        limits = Limits(max_name_length=15)
        self.assertEqual(built(limits, build_key='0123456789').name, 'amphora-0123456')

    def test_any_iterable_of_ids_is_accepted_in_order(self):
        request = built(network_ids=(id_ for id_ in ('b', 'a')), keys={'k': 1})
        self.assertEqual((request.network_ids, request.keys), (('b', 'a'), ('k',)))

    def test_a_public_key_can_be_far_longer_than_an_id(self):
        key = 'ssh-rsa ' + 'A' * 16_000
        self.assertEqual(built(keys=[key]).keys, (key,))

    def test_later_changes_of_arguments_do_not_change_the_request(self):
        metadata, networks, content = {'a': '1'}, ['n-1'], bytearray(b'x')
        request = built(metadata=metadata, network_ids=networks, user_data=content)
        metadata['a'] = '2'
        networks.append('n-2')
        content[0] = 0
        self.assertEqual(dict(request.metadata), {'a': '1'})
        self.assertEqual((request.network_ids, request.user_data), (('n-1',), b'x'))
        with self.assertRaises(TypeError):
            request.metadata['a'] = '3'


class LimitsTest(unittest.TestCase):
    @given(
        st.integers(0, 6),
        st.integers(0, 40),
        st.lists(st.text(max_size=50) | st.binary(max_size=50), max_size=8),
    )
    def test_files_are_accepted_if_and_only_if_they_fit(self, max_files, max_bytes, contents):
        limits = Limits(max_files=max_files, max_file_bytes=max_bytes)
        raw = [content.encode() if isinstance(content, str) else content for content in contents]
        fits = len(raw) <= max_files and all(len(content) <= max_bytes for content in raw)
        for wrap in (lambda content: content, self.as_file):
            files = {f'/f{i}': wrap(content) for i, content in enumerate(contents)}
            if fits:
                request = built(limits, config_drive_files=files)
                self.assertEqual([file.content for file in request.files], raw)
            else:
                with self.assertRaises(InvalidBuildRequest):
                    built(limits, config_drive_files=files)

    def as_file(self, content):
        return (
            io.StringIO(content, newline='') if isinstance(content, str) else io.BytesIO(content)
        )

    @given(st.text() | st.integers() | st.none() | st.binary())
    def test_a_text_is_returned_unchanged_or_refused_without_being_quoted(self, value):
        try:
            self.assertEqual(validation.check_text('subject', value), value)
        except InvalidRequest as exc:
            self.assertRegex(
                str(exc),
                r'^subject (must be a string, not \w+|is empty or has spaces around it'
                r'|has \d+ characters; at most 255 are allowed'
                r'|has a character that cannot be printed)\.$',
            )
        else:
            self.assertTrue(0 < len(value) <= 255 and value.isprintable())


class SmallArgumentsTest(unittest.TestCase):
    def test_a_timeout_is_a_positive_number_or_none(self):
        self.assertIsNone(validation.check_timeout(None))
        self.assertEqual(validation.check_timeout(3), 3.0)
        self.assertEqual(validation.check_timeout(validation.MAX_TIMEOUT_S), 31_622_400)
        for timeout in (0, -1, math.nan, '3', True, [], -math.inf):
            with (
                self.subTest(timeout),
                self.assertRaisesRegex(InvalidRequest, 'timeout must be a'),
            ):
                validation.check_timeout(timeout)

    def test_a_timeout_is_a_year_at_most(self):
        for timeout in (math.inf, 1e30, validation.MAX_TIMEOUT_S * 1.01):
            with self.subTest(timeout), self.assertRaisesRegex(InvalidRequest, 'a year at most'):
                validation.check_timeout(timeout)

    def test_lines_are_a_positive_whole_number_or_none(self):
        validation.check_lines(None)
        validation.check_lines(1)
        for lines in (0, -1, 1.5, '3', True):
            with self.subTest(lines), self.assertRaisesRegex(InvalidRequest, 'positive number'):
                validation.check_lines(lines)
        for lines in (2**31, 10**5000):
            with self.subTest(), self.assertRaisesRegex(InvalidRequest, 'at most'):
                validation.check_lines(lines)

    def test_only_a_resource_of_this_site_can_be_deleted(self):
        with self.assertRaisesRegex(InvalidRequest, 'one of list_resources'):
            validation.check_own_resource('port-1', 'kiln')
        for owner in ('other', None):
            resource = Resource(kind='port', id='port-1', owner=owner)
            with self.assertRaisesRegex(InvalidRequest, f'{owner!r}, not this site') as caught:
                validation.check_own_resource(resource, 'kiln')
            self.assertEqual(caught.exception.resource_id, 'port-1')
        validation.check_own_resource(Resource(kind='port', id='port-1', owner='kiln'), 'kiln')

    def test_ids_are_a_list_and_never_one_string(self):
        self.assertEqual(validation.check_ids(iter(['a', 'b'])), ('a', 'b'))
        for ids in ('id-1', b'id-1', None, 7):
            with self.subTest(ids), self.assertRaisesRegex(InvalidRequest, 'list of strings'):
                validation.check_ids(ids)
        with self.assertRaisesRegex(InvalidRequest, 'amphora_ids is empty'):
            validation.check_ids(['a', ''])

    def test_states_can_be_given_by_name_and_invalid_ones_list_all(self):
        self.assertEqual(
            validation.check_states(['active', State.ERROR]), {State.ACTIVE, State.ERROR}
        )
        for goal in ('active', ['gone'], 7, None):
            with self.subTest(goal), self.assertRaisesRegex(InvalidRequest, 'list of .*suspended'):
                validation.check_states(goal)


#: Calls other than build with one invalid argument each, and its name.
WRONG_CALLS = (
    ('delete', ('',), 'amphora_id'),
    ('delete', ('id-1',), 'timeout', {'timeout': 0}),
    ('status', (7,), 'amphora_id'),
    ('get_amphora', (), 'its name or its id'),
    ('get_amphora', ('',), 'amphora_name'),
    ('get_amphora', (None, ''), 'amphora_id'),
    ('find_build', ('',), 'build_key'),
    ('list_amphorae', (), 'owner', {'owner': 'a b'}),
    ('statuses', ('id-1',), 'amphora_ids'),
    ('statuses', (['id-1', None],), 'amphora_ids'),
    ('changes', (7,), 'since'),
    ('suspend', (None,), 'amphora_id'),
    ('resume', ('',), 'amphora_id'),
    ('reboot', ('',), 'amphora_id'),
    ('rebuild', ('',), 'amphora_id'),
    ('rebuild', ('id-1',), 'image_id', {'image_id': ''}),
    ('attach_port', ('', 'p'), 'amphora_id'),
    ('attach_port', ('id-1', ''), 'port_id'),
    ('detach_port', ('', 'p'), 'amphora_id'),
    ('detach_port', ('id-1', ''), 'port_id'),
    ('attach_network', ('', 'n'), 'amphora_id'),
    ('attach_network', ('id-1', ''), 'network_id'),
    ('attach_network', ('id-1', 'n'), 'address', {'address': ''}),
    ('attach_network', ('id-1', 'n'), 'address', {'address': '10.0.0.256'}),
    ('attach_network', ('id-1', 'n'), 'address', {'address': 7}),
    ('detach_network', ('', 'n'), 'amphora_id'),
    ('detach_network', ('id-1', ''), 'network_id'),
    ('create_server_group', ('', 'affinity'), 'name'),
    ('create_server_group', ('g', ''), 'policy'),
    ('delete_server_group', ('',), 'server_group_id'),
    ('validate_flavor', ('',), 'flavor'),
    ('validate_image', ('',), 'image_id'),
    ('validate_zone', ('',), 'availability_zone'),
    ('validate_network', ('',), 'network_id'),
    ('validate_security_group', ('',), 'security_group'),
    ('check_ports', ('web', []), 'sec_groups'),
    ('check_ports', ([''], []), 'sec_groups'),
    ('check_ports', (['web'], '22/tcp'), 'ports'),
    ('check_ports', (['web'], [22]), 'ports'),
    ('check_ports', (['web'], ['22']), 'ports'),
    ('check_ports', (['web'], ['0/tcp']), 'ports'),
    ('check_ports', (['web'], ['65536/udp']), 'ports'),
    ('check_ports', (['web'], ['22/icmp']), 'ports'),
    ('check_ports', (['web'], [], 'web'), 'peers'),
    ('claim', ('', 'k'), 'amphora_id'),
    ('claim', ('id-1', 'a/b'), 'build_key'),
    ('claim', ('id-1', 7), 'build_key'),
    ('describe_image', ('',), 'image_id'),
    ('list_resources', (), 'owner', {'owner': ''}),
    ('delete_resource', ('port-1',), 'resource'),
    ('console_log', ('',), 'amphora_id'),
    ('console_log', ('id-1',), 'lines', {'lines': 0}),
)


class EveryCallTest(unittest.TestCase):
    def assert_each_is_refused(self, face):
        for name, args, subject, *more in WRONG_CALLS:
            keywords = more[0] if more else {}
            with (
                self.subTest(name, argument=subject),
                self.assertRaisesRegex(InvalidRequest, subject),
            ):
                getattr(face, name)(*args, **keywords)

    def test_a_driver_refuses_an_invalid_argument_before_any_hook(self):
        driver = MemoryDriver()
        driver.on_hook = self.fail
        self.assert_each_is_refused(driver)

    def test_the_facade_refuses_an_invalid_argument_on_the_callers_thread(self):
        driver = MemoryDriver()
        driver.on_hook = self.fail
        compute = Compute(driver)
        self.addCleanup(compute.close, 0.1)
        self.assert_each_is_refused(compute)
        with self.assertRaisesRegex(InvalidRequest, 'goal'):
            compute.watch('id-1', goal='active')

    def test_these_tests_cover_every_call_of_the_contract(self):
        checked = {name for name, *_ in WRONG_CALLS} | {'build'}
        calls = {
            name
            for name, method in vars(MemoryDriver.__mro__[1]).items()
            if callable(method) and not name.startswith('_')
        }
        takes_nothing = {'capabilities', 'check', 'close', 'cursor', 'list_zones', 'open'}
        within = {'perform', 'refusal', 'look_up', 'choose', 'on_news', 'reached'}
        self.assertEqual(calls - takes_nothing - within, checked)
