"""What the guide promises to authors of cluster drivers, from a file to a node."""

import re
import shlex

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.foreign import ForeignShell

JOINING = """\
user_data: join.sh
"""
JOIN = """\
#!/bin/sh
join --node {{ node.name }} --token {{ node.join_token }}
"""


class JoinTokens(ForeignShell):
    def setUp(self):
        super().setUp()
        self.driver('join_v1', JOINING, **{'join.sh': JOIN})

    def tokens(self):
        return dict(
            re.search(r'--node (\S+) --token ([0-9a-f]{64})$', text, re.MULTILINE).groups()
            for text in self.given().values()
        )

    def test_each_node_is_given_a_token_of_its_own(self):
        self.ok('up', self.page(count=2))
        names = {node['name'] for node in self.json('node', 'list', 'web')}
        self.assertEqual(names, set(self.tokens()))
        self.assertEqual(2, len(set(self.tokens().values())))

    def test_a_plan_can_be_made_before_the_cluster_has_a_key(self):
        self.assertIn('work: +1', self.ok('plan', self.page()))
        self.assertEqual([], self.json('cluster', 'list'))

    def test_a_node_that_follows_later_is_given_a_token(self):
        self.ok('up', self.page(count=1))
        before = self.tokens()
        self.ok('cluster', 'scale', 'web', '2')
        self.assertLess(before.items(), self.tokens().items())


GUARDED = """\
parameters:
  admin_password: {secret: true, required: true}
user_data: start.sh
outputs:
  greeting: {text: 'welcome to {{ node.name }}'}
"""
START = """\
#!/bin/sh
PASSWORD={{ admin_password | shell }}
exec serve --password "$PASSWORD"
"""
#: Needs quotes in every language.
VALUE = "correct 'horse' $battery"
NAMED = 'parameters: {admin_password: web-admin}\n'


class Secrets(ForeignShell):
    def setUp(self):
        super().setUp()
        self.driver('guarded_v1', GUARDED, **{'start.sh': START})

    def test_a_node_is_given_the_secret_that_a_parameter_names(self):
        self.keep('web-admin', f'{VALUE}\n')
        shown = self.ok('up', self.page(NAMED), '-v', '-v')
        self.assertIn(shlex.quote(VALUE), self.given()['m1'])
        for said in (shown, self.err, self.ok('cluster', 'show', 'web', '-f', 'json')):
            self.assertNotIn(VALUE, said)

    def test_the_value_of_a_secret_is_stored_nowhere(self):
        self.keep('web-admin', 'hunter2-battery')
        self.ok('up', self.page(NAMED))
        self.assertIn('hunter2-battery', self.given()['m1'])
        self.assertNotIn(b'hunter2-battery', self.stored())
        self.assertIn(b'web-admin', self.stored())

    def test_a_new_value_is_given_to_the_next_node(self):
        self.keep('web-admin', 'first')
        self.ok('up', self.page(NAMED))
        self.keep('web-admin', 'second')
        self.ok('cluster', 'scale', 'web', '2')
        passwords = {text.splitlines()[1] for text in self.given().values()}
        self.assertEqual({'PASSWORD=first', 'PASSWORD=second'}, passwords)

    def test_a_secret_that_cannot_be_used_is_refused_before_anything_is_built(self):
        self.keep('web-admin', 'hunter2')
        open_to_all = NAMED.replace('web-admin', 'open')
        self.keep('open', 'hunter2', mode=0o644)
        for more, said in (
            (NAMED.replace('web-admin', 'absent'), 'The named secret in \\S+ does not exist'),
            (NAMED.replace('web-admin', '"hunter2!"'), 'cannot be the name of a secret'),
            (open_to_all, 'chmod 600'),
        ):
            with self.subTest(more):
                error = self.fails(ExitCode.USAGE, 'up', self.page(more))
                self.assertRegex(error, rf'^{self.folder}/web.yaml:\d+:\d+: .*{said}')
                self.assertIn('admin_password', error)
                self.assertNotIn('hunter2', error)
        self.assertEqual([], self.json('cluster', 'list'))
        self.assertEqual({}, self.given())

    def test_a_site_without_a_store_says_which_option_to_set(self):
        self.configure('')
        error = self.fails(ExitCode.USAGE, 'up', self.page(NAMED))
        self.assertIn('This site has no store of secrets', error)
        self.assertIn('Set option [secrets] directory', error)

    def test_a_directory_that_is_not_safe_is_refused(self):
        self.secrets.chmod(0o770)
        self.assertIn('chmod go-w', self.fails(ExitCode.USAGE, 'cluster', 'list'))
        self.configure(f'[secrets]\ndirectory = {self.folder}/nowhere\n')
        self.assertIn(
            'nowhere, set in [secrets] directory: No such file',
            self.fails(ExitCode.USAGE, 'cluster', 'list'),
        )
        self.configure(f'[secrets]\ndirectory = {self.config}\n')
        self.assertIn('is not a directory', self.fails(ExitCode.USAGE, 'cluster', 'list'))
