"""Fresh roots, as far as they need neither root nor mmdebstrap."""

import configparser
import contextlib
import io
import pathlib
import tempfile
import unittest

from tools.freshroot import carried, cli, namespaces, roots
from tools.freshroot.cases import CASES
from tools.freshroot.errors import FreshrootError
from tools.freshroot.place import Place, default_home

STANZA = """Types: deb deb-src
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"""


class Homes(unittest.TestCase):
    def test_the_cache_lies_where_the_environment_says(self):
        self.assertEqual(pathlib.Path('/x'), default_home({'KILN_ROOTS_HOME': '/x'}))
        self.assertEqual(pathlib.Path('/c/kiln-freshroot'), default_home({'XDG_CACHE_HOME': '/c'}))

    def test_a_home_that_an_overlay_cannot_name_is_refused(self):
        with self.assertRaises(FreshrootError):
            Place(pathlib.Path('/a:b'))

    def test_the_scratch_folder_of_a_run_goes_with_it(self):
        home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        place = Place(home)
        with place.scratch() as folder:
            place.sweep()
            self.assertTrue(folder.exists(), 'a run that lives keeps its folder')
        self.assertFalse(folder.exists())
        (place.runs / 'killed').mkdir()
        place.sweep()
        self.assertEqual([], list(place.runs.iterdir()))


class Sources(unittest.TestCase):
    def test_a_stanza_becomes_lines(self):
        key = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
        self.assertEqual(
            [
                f'deb {key} http://mirror.test/debian bookworm{suffix} main contrib'
                for suffix in ('', '-updates', '-backports')
            ],
            roots.one_line_each(STANZA),
        )

    def test_a_stanza_that_is_disabled_or_has_no_packages_is_left_out(self):
        self.assertEqual([], roots.one_line_each(f'{STANZA}\nEnabled: no'))
        self.assertEqual([], roots.one_line_each(STANZA.replace('deb deb-src', 'deb-src')))

    def test_only_debian_s_own_sources_serve_another_suite(self):
        lines = [
            *roots.one_line_each(STANZA),
            'deb http://vendor.test/debian bookworm stable',
            'deb http://vendor.test/debian stable main',
            '# deb http://mirror.test/debian bookworm main',
            'deb http://mirror.test/security bookworm-security main',
        ]
        key = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
        self.assertEqual(
            [
                f'deb {key} http://mirror.test/debian trixie main',
                f'deb {key} http://mirror.test/debian trixie-updates main',
                'deb http://mirror.test/security trixie-security main',
            ],
            roots.translated(lines, 'bookworm', 'trixie'),
        )
        self.assertEqual([], roots.translated(lines, '', 'trixie'))

    def test_sources_are_read_in_both_forms(self):
        apt = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (apt / 'sources.list.d').mkdir()
        (apt / 'sources.list').write_text('deb http://one.test/debian bookworm main\n')
        stanzas = f'# ours\n{STANZA}\n\n{STANZA.replace("mirror", "other")}\n'
        (apt / 'sources.list.d' / 'debian.sources').write_text(stanzas)
        (apt / 'sources.list.d' / 'old.sources.disabled').write_text(STANZA)
        self.assertEqual(7, len(roots.host_sources(apt)))

    def test_another_list_of_packages_is_another_root(self):
        names = {
            roots.digest('bookworm'),
            roots.digest('trixie'),
            roots.digest('trixie', ('git',)),
        }
        self.assertEqual(3, len(names))


class Carried(unittest.TestCase):
    def test_what_says_how_packages_are_reached_is_carried_in_and_nothing_else(self):
        wanted = {
            'PIP_INDEX_URL': 'https://index.test/simple',
            'HTTPS_PROXY': 'http://proxy.test',
            'no_proxy': 'localhost',
            'SSL_CERT_FILE': '/ca.pem',
        }
        other = {'PIP_TARGET': '/t', 'PYTHONPATH': '/p', 'VIRTUAL_ENV': '/v', 'HOME': '/h'}
        self.assertEqual(wanted, carried.environment({**wanted, **other}))

    def test_local_indexes_bring_the_files_beside_them(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ('index/simple', 'wheels'):
            (folder / name).mkdir(parents=True)
        written = configparser.RawConfigParser()
        written.read_string(
            '[global]\n'
            f'extra-index-url = https://pypi.test/simple\n  file://{folder}/index/simple/\n'
        )
        given = {'PIP_FIND_LINKS': f'{folder}/wheels {folder}/missing'}
        self.assertEqual(
            {folder / 'index', folder / 'wheels'}, carried.local_folders(given, [written])
        )

    def test_files_that_a_configuration_names_come_with_it(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ('constraints.txt', 'ca.pem'):
            (folder / name).touch()
        written = configparser.RawConfigParser()
        written.read_string(f'[global]\nconstraint = {folder}/constraints.txt {folder}/missing\n')
        self.assertEqual(
            {folder / 'constraints.txt', folder / 'ca.pem'},
            carried.local_files({'PIP_CERT': f'{folder}/ca.pem'}, [written]),
        )


class Commands(unittest.TestCase):
    def run_command(self, *arguments):
        self.out, self.err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            try:
                return cli.main(arguments)
            except SystemExit as leave:
                return leave.code

    def test_cases_are_listed(self):
        self.assertEqual(0, self.run_command('cases'))
        self.assertEqual(len(CASES), len(self.out.getvalue().splitlines()))

    def test_mistakes_are_one_line_each(self):
        for arguments, words in (
            (['run', '--suite', 'sid', '--', 'true'], 'sid'),
            (['run', '--env', 'X', '--', 'true'], "'X' is not NAME=VALUE"),
            (['run'], 'COMMAND'),
            (['--home', '/a,b', 'clean'], 'without comma'),
        ):
            with self.subTest(arguments):
                self.assertNotEqual(0, self.run_command(*arguments))
                self.assertIn(words, self.err.getvalue().splitlines()[-1])

    def test_the_status_of_a_command_is_what_a_shell_would_give(self):
        self.assertEqual(3, namespaces.status(3 << 8))
        self.assertEqual(128 + 9, namespaces.status(9))
