"""Documentation of hooks: tables and examples match the code."""

import contextlib
import io
import json
import pathlib
import re
import time
import unittest

from kiln.hooks.callers.webhooks import sign
from kiln.hooks.fields import HOOK
from kiln.hooks.invocation import Call
from kiln.hooks.points import Point
from kiln.hooks.replies import Reply, parse
from tests.unit.hooks.samples import NODE, hook, occasion

DOC = pathlib.Path(__file__).parents[3] / 'doc' / 'source'
EXAMPLES = DOC.parent / 'examples'
ADMIN = (DOC / 'admin' / 'hooks.rst').read_text()
WRITING = (DOC / 'contributor' / 'writing-a-hook.rst').read_text()


def blocks(text, language):
    """Return the code blocks in a language."""
    found = re.findall(rf'code-block:: {language}\n\n((?:   .*\n|\n)+)', text)
    return [re.sub(r'^   ', '', block, flags=re.MULTILINE) for block in found]


def shape(value):
    """Return the keys of a document, recursively."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else None


class Pages(unittest.TestCase):
    def test_the_page_shows_the_programs_that_are_tested(self):
        shown = re.findall(r'literalinclude:: ../../examples/(\w+.py)', WRITING)
        self.assertEqual(['hook_signature.py', 'hook_function.py'], shown)

    def test_every_point_is_listed_with_its_failure_defaults(self):
        for point in Point:
            (line,) = re.findall(rf'^``{point.value}``  .*$', ADMIN, flags=re.MULTILINE)
            self.assertEqual([point.on_failure, point.on_deadline], line.split()[-2:], line)

    def test_every_key_is_listed(self):
        lines = set(re.findall(r'^``(\w+)``  ', ADMIN, flags=re.MULTILINE))
        self.assertEqual(HOOK.fields.keys() | {point.value for point in Point}, lines)

    def test_the_documented_payload_has_the_keys_of_a_real_payload(self):
        said, answer = map(json.loads, blocks(WRITING, 'json'))
        sent = Call(hook('a', Point.POST_NODE_READY), 'key', 1, None).document(
            occasion(NODE).document()
        )
        self.assertEqual(shape(json.loads(json.dumps(sent))), shape(said))
        self.assertIs(Reply.LATER, parse(json.dumps(answer).encode()).reply)

    def test_the_documented_check_accepts_only_signatures_of_kiln(self):
        names = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec((EXAMPLES / 'hook_signature.py').read_text(), names)
        is_from_kiln, now = names['is_from_kiln'], int(time.time())

        def headers(at, secret=b'hunter2', body=b'{}'):
            signature = sign(secret, str(at), body)
            return {'Kiln-Timestamp': str(at), 'Kiln-Signature': f'sha256={signature}'}

        self.assertTrue(is_from_kiln(headers(now), b'{}', b'hunter2'))
        self.assertFalse(is_from_kiln(headers(now, b'other'), b'{}', b'hunter2'))
        self.assertFalse(is_from_kiln(headers(now), b'{"more": 1}', b'hunter2'))
        self.assertFalse(is_from_kiln(headers(now - 301), b'{}', b'hunter2'))
