"""Variables that a shell script uses and does not set."""

import unittest

from kiln.testing.clusters.shell_variables import unset_variables

SET = (
    'PORT=1\necho "$PORT"',
    'export PORT=1; echo ${PORT}',
    'for HOST in a b; do echo $HOST; done',
    'while read -r NAME REST; do echo "$NAME $REST"; done',
    'echo "${PORT:-80}" "${PROXY-}" "$HOME" "$1" "$lower"',
    "awk '{print $NF}'",
    'echo \\$PORT',
    '# $PORT',
    "cat <<'END'\n$PORT\nEND\n",
    '. /etc/os-release\necho "$VERSION_CODENAME"',
)
UNSET = {
    'echo "$PORT"': {'PORT'},
    'A1=2\necho ${B2}': {'B2'},
    'cat <<END\n$PORT\nEND\n': {'PORT'},
    'echo "${PORT%/*}"': {'PORT'},
}


class ShellVariablesTest(unittest.TestCase):
    def test_a_variable_that_is_set_or_need_not_be_is_no_mistake(self):
        for script in SET:
            self.assertEqual(set(), unset_variables(script), script)

    def test_a_variable_that_nothing_sets_is_found(self):
        for script, names in UNSET.items():
            self.assertEqual(names, unset_variables(script), script)
