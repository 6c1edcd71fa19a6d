"""User data as kiln composes it, read by the real cloud-init."""

import base64
import email
import email.mime.multipart
import email.mime.text
import gzip
import random
import re
import unittest

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kiln.compute_drivers.authoring import user_data
from kiln.models import InjectedFile
from tests.functional.cloud_init.package import cloud_init, content, read
from tests.unit.compute_drivers.nova.loopback import Loopback

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB ops@east'
PEM = b'-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'


def file(path, content=b'x', mode=0o644, owner='root'):
    return InjectedFile(path=path, content=content, mode=mode, owner=owner)


class Files(unittest.TestCase):
    def test_files_are_written_with_content_mode_and_owner(self):
        found = read(
            user_data.compose(
                None,
                [
                    file('/etc/agent.conf', b'debug = no\n'),
                    file('/etc/tls/key.pem', PEM, 0o600, 'haproxy'),
                    file('/usr/local/bin/run', b'#!/bin/sh\n', 0o755, 'root:adm'),
                ],
            )
        )
        self.assertEqual(
            {
                path: (content(found, path), written['mode'], written['owner'])
                for path, written in found['files'].items()
            },
            {
                '/etc/agent.conf': (b'debug = no\n', 0o644, ['root', None]),
                '/etc/tls/key.pem': (PEM, 0o600, ['haproxy', None]),
                '/usr/local/bin/run': (b'#!/bin/sh\n', 0o755, ['root', 'adm']),
            },
        )

    def test_the_content_of_a_file_is_preserved_to_the_byte(self):
        for what, sent in {
            'empty': b'',
            'every byte': bytes(range(256)),
            'line ends of Windows': b'a\r\nb\r\n',
            'no line end': b'a',
            'a boundary of its own': b'--kiln-0\nContent-Type: text/plain\n\n',
            'long, and easily packed': b'listen 0.0.0.0:80\n' * 500,
            'packed already': gzip.compress(b'a' * 5000),
        }.items():
            with self.subTest(what):
                found = read(user_data.compose(None, [file('/a', sent)]))
                self.assertEqual(sent, content(found, '/a'))

    def test_a_path_can_have_any_characters(self):
        for path in ('/etc/a b', '/etc/ü', '/etc/"q"', '/etc/\\n', '/etc/😀', "/etc/'", '/#: x'):
            with self.subTest(path):
                found = read(user_data.compose(None, [file(path, b'x')]))
                self.assertEqual([path], list(found['files']))

    def test_ssh_keys_are_added(self):
        found = read(user_data.compose(None, [], [KEY, 'ssh-rsa AAAAB3 ü@west']))
        self.assertEqual([KEY, 'ssh-rsa AAAAB3 ü@west'], found['config']['ssh_authorized_keys'])

    def test_large_files_are_compressed_and_written(self):
        letters = random.Random(7)
        files = [
            file(f'/etc/{i}.pem', base64.b64encode(letters.randbytes(7680))) for i in range(5)
        ]
        whole = user_data.compose(b'#!/bin/sh\necho\n', files, [KEY])
        self.assertTrue(whole.startswith(b'\x1f\x8b'))
        self.assertLessEqual(len(whole), user_data.MAX_BYTES)
        found = read(whole)
        for one in files:
            self.assertEqual(one.content, content(found, one.path))
        self.assertEqual(1, len(found['scripts']))


class Merging(unittest.TestCase):
    CALLERS = b"""#cloud-config
hostname: web-1
ssh_authorized_keys: [ssh-rsa AAAA caller]
users: [default, {name: ops}]
write_files:
- {path: /etc/theirs, content: theirs, permissions: '0640'}
- {path: /etc/both, content: theirs}
"""

    def composed(self):
        files = [file('/etc/ours', b'ours', 0o600), file('/etc/both', b'ours')]
        return user_data.compose(self.CALLERS, files, [KEY])

    def test_kilns_files_and_keys_are_appended_to_those_of_the_caller(self):
        found = read(self.composed())
        paths = [entry['path'] for entry in found['config']['write_files']]
        self.assertEqual(['/etc/theirs', '/etc/both', '/etc/ours', '/etc/both'], paths)
        self.assertEqual(b'theirs', content(found, '/etc/theirs'))
        self.assertEqual(0o640, found['files']['/etc/theirs']['mode'])
        self.assertEqual(b'ours', content(found, '/etc/ours'))
        self.assertEqual(['ssh-rsa AAAA caller', KEY], found['config']['ssh_authorized_keys'])

    def test_kilns_file_is_written_last_if_the_caller_has_one_at_its_path(self):
        self.assertEqual(b'ours', content(read(self.composed()), '/etc/both'))

    def test_the_rest_of_the_callers_config_is_preserved(self):
        found = read(self.composed())
        self.assertEqual('web-1', found['config']['hostname'])
        self.assertEqual(['default', {'name': 'ops'}], found['config']['users'])

    def test_without_a_merge_type_the_callers_files_are_lost(self):
        # The tests above rely on the merge type: the default of cloud-init is to replace lists.
        without = re.sub(rb'Merge-Type: .*\n', b'', self.composed())
        paths = [entry['path'] for entry in read(without)['config']['write_files']]
        self.assertEqual(['/etc/ours', '/etc/both'], paths)


def message(*parts):
    whole = email.mime.multipart.MIMEMultipart()
    for kind, text, headers in parts:
        part = email.mime.text.MIMEText(text, kind)
        for name, value in headers.items():
            part[name] = value
        whole.attach(part)
    return whole.as_bytes()


MESSAGE = message(
    ('x-shellscript', '#!/bin/sh\necho ü\n', {'Content-Disposition': 'attachment; filename="a"'}),
    ('cloud-config', '#cloud-config\nruncmd: [ls]\n', {}),
    ('cloud-config', '#cloud-config\nruncmd: [id]\n', {'Merge-Type': 'list(append)+dict()+str()'}),
)
CALLERS = {
    'a script': b'#!/bin/sh\necho\n',
    'a script with line ends of Windows': b'#!/bin/sh\r\necho\r\n',
    'a script that ends without a line end': b'#!/bin/sh\necho',
    'a script in Latin-1': '#!/bin/sh\necho \xfc\n'.encode('latin-1'),
    'a script in UTF-8': '#!/bin/sh\necho ü\n'.encode(),
    'a script with an empty line first': b'\n\n#!/bin/sh\necho\n',
    'a script that mentions MIME-Version: 1.0': b'#!/bin/sh\n# MIME-Version: 1.0\necho\n',
    'a script of long lines': b'#!/bin/sh\n: ' + b'x' * 5000 + b'\nFrom here\n',
    'config': b'#cloud-config\nruncmd: [ls]\n',
    'config as a template': b'## template: jinja\n#cloud-config\nfqdn: {{ v1.region }}\n',
    'a script as a template': b'## template: jinja\n#!/bin/sh\necho {{ v1.region }}\n',
    'a patch': b'#cloud-config-jsonp\n[{"op": "add", "path": "/runcmd", "value": ["ls"]}]\n',
    'an archive': b'#cloud-config-archive\n- "#!/bin/sh\\necho"\n- "#cloud-config\\na: b"\n',
    'a hook': b'#cloud-boothook\n#!/bin/sh\nls\n',
    'a message': MESSAGE,
    'a message with line ends of Windows': MESSAGE.replace(b'\n', b'\r\n'),
    'a message that breaks off': MESSAGE[: MESSAGE.rindex(b'--')],
    'a message with a line of an envelope': b'From nobody Mon Jan  1 00:00:00 2024\n' + MESSAGE,
    'a packed script': gzip.compress(b'#!/bin/sh\necho\n'),
    'a packed message': gzip.compress(MESSAGE),
    'a script packed twice': gzip.compress(gzip.compress(b'#!/bin/sh\necho\n')),
    'what only looks packed': b'\x1f\x8b\x08\x00nothing of the kind',
    'what is packed and breaks off': gzip.compress(b'#!/bin/sh\necho\n')[:-9],
    'nothing that is known': b'hello\n',
    'bytes': bytes(range(256)),
}


class CallersUserData(unittest.TestCase):
    """User data of the caller, which kiln must not change."""

    def stays(self, callers):
        alone = cloud_init().read(callers)
        beside = cloud_init().read(user_data.compose(callers, [file('/ours', b'ours')], [KEY]))
        self.assertNotIn('error', alone)
        self.assertNotIn('error', beside)
        self.assertEqual(self.known(alone['parts']), self.known(beside['parts'][:-1]))
        self.assertEqual(alone['scripts'], beside['scripts'])
        self.assertEqual(len(alone['complaints']), len(beside['complaints']))
        config = beside['config']
        self.assertEqual(b'ours', content(beside, '/ours'))
        del config['write_files'][-1], config['ssh_authorized_keys'][-1]
        for empty in ('write_files', 'ssh_authorized_keys'):
            if empty not in alone['config']:
                self.assertEqual([], config.pop(empty))
        self.assertEqual(alone['config'], config)
        return alone

    def known(self, parts):
        # cloud-init ignores unknown parts, whichever type it gives them.
        unknown = ('text/x-not-multipart', 'text/plain')
        return [('unknown' if kind in unknown else kind, text) for kind, text in parts]

    def test_user_data_of_the_caller_is_preserved(self):
        for what, callers in CALLERS.items():
            with self.subTest(what):
                self.stays(callers)

    def test_user_data_of_the_caller_is_recognized_by_its_type(self):
        # The test above would also pass if cloud-init misread both sides in the same way.
        for what, kinds in {
            'a script': ['text/x-shellscript'],
            'config as a template': ['text/jinja2'],
            'a patch': ['text/cloud-config-jsonp'],
            'an archive': ['text/x-shellscript', 'text/cloud-config'],
            'a hook': ['text/cloud-boothook'],
            'a message': ['text/x-shellscript', 'text/cloud-config', 'text/cloud-config'],
            'a packed script': ['text/x-shellscript'],
            'a packed message': ['text/x-shellscript', 'text/cloud-config', 'text/cloud-config'],
        }.items():
            with self.subTest(what):
                self.assertEqual(
                    kinds, [kind for kind, _ in cloud_init().read(CALLERS[what])['parts']]
                )

    def test_an_include_is_fetched(self):
        script = '#!/bin/sh\necho fetched\n'
        with Loopback({'GET /script': (200, {}, script)}) as web:
            for mark in ('#include\n', '#include ', '#include-once\n'):
                with self.subTest(mark):
                    alone = self.stays(f'{mark}{web.url}/script\n'.encode())
                    self.assertEqual(
                        [['text/x-shellscript', base64.b64encode(script.encode()).decode()]],
                        alone['parts'],
                    )

    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
    @given(
        st.sampled_from([b'', b'#!/bin/sh\n', b'#cloud-config\na: ', b'MIME-Version: 1.0\n']),
        st.binary(max_size=200) | st.text('ab\r\n-: \t', max_size=60).map(str.encode),
    )
    def test_any_bytes_of_the_caller_are_preserved(self, head, rest):
        callers = head + rest
        if not callers or 'error' in cloud_init().read(callers):
            # If cloud-init cannot read the user data of the caller, it reads nothing at all.
            return
        if b'mime-version:' in callers.lower():
            # The last newline of a message can be taken for part of the boundary.
            callers += b'\n'
        self.stays(callers)


class Text(unittest.TestCase):
    """For a backend whose user data is text."""

    def test_a_large_script_is_read_as_it_was_given_beside_files(self):
        script = b'#!/bin/sh\n' + b'# filler\n' * 10_000
        found = read(user_data.compose_text(script, [file('/a', b'x')], [KEY]))
        kind, sent = found['parts'][0]
        self.assertEqual(('text/x-shellscript', script), (kind, base64.b64decode(sent)))
        self.assertEqual(b'x', content(found, '/a'))
        self.assertEqual([KEY], found['config']['ssh_authorized_keys'])

    def test_bytes_that_are_not_text_are_read_as_they_were_given(self):
        script = b'#!/bin/sh\necho \xff\xfe\n'
        for given_ in (script, gzip.compress(script)):
            ((kind, sent),) = cloud_init().read(user_data.compose_text(given_, []))['parts']
            self.assertEqual(('text/x-shellscript', script), (kind, base64.b64decode(sent)))


_names = st.text(
    st.characters(exclude_characters='/', exclude_categories=['C', 'Z']), min_size=1, max_size=20
).filter(lambda name: name not in ('.', '..') and len(name.encode()) < 200)
_files = st.lists(
    st.builds(
        file,
        st.lists(_names, min_size=1, max_size=2).map(lambda names: '/'.join(['', 'f', *names])),
        st.binary(max_size=2000) | st.text(max_size=200).map(str.encode),
        # cloud-init reads mode 0 as the default mode, and its chown clears the setuid and
        # setgid bits.
        st.integers(1, 0o1777),
        st.from_regex(r'[a-z_][a-z0-9_-]{0,30}(:[a-z_][a-z0-9_-]{0,30})?', fullmatch=True),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one.path.split('/')[2],
)


class Properties(unittest.TestCase):
    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
    @given(_files, st.none() | st.sampled_from(list(CALLERS.values())), st.booleans())
    def test_any_files_are_written_beside_any_user_data(self, files, callers, large):
        if large:
            # Too large unless all of it is compressed.
            files = [*files, file('/large', bytes(range(256)) * 40), file('/large2', b'a' * 10240)]
            callers = (callers or b'') + b'\n#' * 25_000 if callers != b'' else callers
        found = cloud_init().read(user_data.compose(callers, files))
        for one in files:
            written = found['files'][one.path]
            self.assertEqual(one.content, content(found, one.path))
            self.assertEqual(one.mode, written['mode'])
            user, _, group = one.owner.partition(':')
            self.assertEqual([user, group or None], written['owner'])


if __name__ == '__main__':
    unittest.main()
