"""Secrets that a driver quotes, in whatever encoding, are in no output and in no store."""

import base64
import json
import urllib.parse

from tests.unit.cli.cluster.machines_shell import MachinesShell

SECRET = 'MARKER of=the&cloud\u00e9'
FORMS = (
    SECRET, json.dumps(SECRET)[1:-1], urllib.parse.quote(SECRET), urllib.parse.quote_plus(SECRET),
    base64.b64encode(b'me:' + SECRET.encode()).decode()[4:-4], SECRET.encode().hex(),
    repr(SECRET.encode())[2:-1],
)  # fmt: skip
DRIVER = """
import base64, json, urllib.parse
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import READY, Bootstrap
from kiln.clusters.exceptions import ClusterDriverError, Problem


def quoted(context):
    secret = context.secrets.get(context.credentials)
    header = base64.b64encode(b'me:' + secret.encode()).decode()
    forms = (secret, json.dumps(secret), urllib.parse.quote(secret),
             urllib.parse.quote_plus(secret), secret.encode().hex(), secret.encode())
    return f'the engine said {{forms}} to Basic {{header}}'


class Driver(NodeClusterDriver):
    name, version = 'loud_v1', '1.0.0'
    provides = [('*', '*', 'loud')]

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def {method}
"""
METHODS = {
    'validate': """validate(self, context, cluster, plan):
        return [Problem(message=quoted(context))]
""",
    'bootstrap': """bootstrap(self, context, cluster, node):
        raise ClusterDriverError(quoted(context))
""",
    'a defect': """bootstrap(self, context, cluster, node):
        raise ValueError(quoted(context))
""",
}


class Quoted(MachinesShell):
    def test_it_is_in_no_output_and_in_no_store(self):
        for name, method in METHODS.items():
            with self.subTest(name):
                self.code('loud_v1', DRIVER.format(method=method))
                self.keep('cloud', SECRET)
                page = self.page('credentials: cloud\n', coe='loud')
                self.assertNotEqual(0, self.sh('-v', '-v', '--debug', 'up', page, '--yes'))
                said = self.out + self.err
                self.assertIn('the engine said', said)
                for more in ('why', 'web'), ('cluster', 'show', 'web', '-f', 'json'):
                    self.sh(*more)
                    said += self.out + self.err
                self.sh('cluster', 'delete', 'web', '--yes')
                said += self.out + self.err
                self.assertEqual([], [form for form in FORMS if form in said])
                stored = self.stored()
                self.assertEqual([], [form for form in FORMS if form.encode() in stored])
