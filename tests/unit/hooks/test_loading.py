"""Hook loading: mistakes are found before any hook is called."""

import importlib.metadata
import os
import pathlib
import tempfile
import unittest

from kiln.clusters.exceptions import InvalidHooks
from kiln.clusters.models import OperationKind
from kiln.hooks.callers.plugins import hook
from kiln.hooks.fields import HOOK, url_mistake
from kiln.hooks.hook import Executable, Webhook
from kiln.hooks.loading import load_hooks
from kiln.hooks.points import OnDeadline, OnFailure, Point
from kiln.hooks.replies import Answer

PROGRAM = '/bin/true'


@hook(Point.POST_CREATE, order=7)
def announce(document):
    return Answer.ok()


@hook(Point.POST_DELETE, on_failure=OnFailure.FAIL)
def refuse(document):
    return Answer.ok()


def no_hook(document):
    return Answer.ok()


def entry(name, value):
    return importlib.metadata.EntryPoint(name, f'{__name__}:{value}', 'kiln.hooks')


class LoadCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.directory = self.folder / 'hooks.d'
        self.file = self.folder / 'hooks.yaml'

    def program(self, place, mode=0o755):
        path = self.directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#!/bin/sh\n')
        path.chmod(mode)
        return path

    def load(self, text=None, *entries):
        if text is not None:
            self.file.write_text(text)
        return load_hooks(
            directory=self.directory if self.directory.exists() else None,
            file=self.file if text is not None else None,
            entries=entries,
        )

    def problems(self, text=None, *entries):
        with self.assertRaises(InvalidHooks) as caught:
            self.load(text, *entries)
        return [str(problem).replace(f'{self.folder}/', '') for problem in
                caught.exception.problems]  # fmt: skip

    def assert_problem(self, pattern, text=None, *entries):
        (found,) = self.problems(text, *entries)
        self.assertRegex(found, pattern)


class Nothing(LoadCase):
    def test_a_site_can_have_no_hooks(self):
        self.assertEqual((), load_hooks())
        self.directory.mkdir()
        self.assertEqual((), self.load('hooks: []'))


class Directories(LoadCase):
    def test_000_8_an_executable_in_a_directory_is_a_hook(self):
        path = self.program('pre_create/10-cmdb.sh')
        self.program('pre_create/05-zoo')
        self.program('post_delete/99-cmdb')
        first, cmdb, last = self.load()
        self.assertEqual(
            ('cmdb', Point.PRE_CREATE, 10, Executable((str(path),))),
            (cmdb.name, cmdb.point, cmdb.order, cmdb.target),
        )
        self.assertEqual(('zoo', 'post_delete/cmdb'), (first.name, str(last)))

    def test_files_left_by_editors_are_ignored(self):
        self.program('pre_create/.10-cmdb.swp')
        self.program('pre_create/10-cmdb~', mode=0o644)
        self.assertEqual((), self.load())

    def test_an_executable_in_a_folder_that_others_can_change_is_refused(self):
        """Finding L3: the hook was judged without its folder."""
        path = self.program('pre_create/10-cmdb')
        path.chmod(0o755)
        path.parent.chmod(0o777)
        self.assert_problem('other users can change')

    def test_a_file_that_cannot_be_run_is_reported(self):
        for place, mode, why in (
            ('pre_create/10-cmdb', 0o644, 'not executable'),
            ('pre_create/10-cmdb', 0o757, 'other users can change'),
            ('pre_create/cmdb', 0o755, 'its name is not NN-name'),
            ('pre_create/10-CMDB', 0o755, 'its name is not NN-name'),
            ('pre_create/10-driver', 0o755, 'its name is not NN-name'),
            ('pre_lunch/10-cmdb', 0o755, 'no such point.*pre_create'),
            ('10-cmdb', 0o755, 'no such point'),
        ):
            with self.subTest(place, mode=mode):
                path = self.program(place, mode)
                self.assert_problem(why)
                path.unlink()
                if path.parent != self.directory:
                    path.parent.rmdir()

    def test_a_dangling_link_and_a_directory_are_reported(self):
        (self.directory / 'pre_create/20-folder').mkdir(parents=True)
        os.symlink('nothing', self.directory / 'pre_create/10-link')
        link, folder = self.problems()
        self.assertIn('No such file', link)
        self.assertIn('not a regular file', folder)

    def test_a_path_that_is_not_a_directory_is_reported(self):
        self.directory.write_text('')
        self.assert_problem('cannot be read as a directory')


WHOLE = f"""
hooks:
  - name: cmdb
    point: pre_update
    exec: [{PROGRAM}, --verbose]
    order: 10
    timeout: 10s
    deadline: 1m
    on_failure: retry
    on_deadline: continue
    retries: 3
    backoff: 2s
    clusters: [web]
    drivers: [swarm_v1]
    kinds: [resize, upgrade]
  - name: ipam
    point: post_node_ready
    url: https://ipam.example/kiln
"""


class Files(LoadCase):
    def test_000_8_every_field_of_a_hook_can_be_set_in_a_file(self):
        cmdb, ipam = self.load(WHOLE)
        self.assertEqual(Executable((PROGRAM, '--verbose')), cmdb.target)
        self.assertEqual(
            (10, 10.0, 60.0, OnFailure.RETRY, OnDeadline.CONTINUE, 3, 2.0, ('web',),
             ('swarm_v1',), (OperationKind.RESIZE, OperationKind.UPGRADE)),
            (cmdb.order, cmdb.timeout_s, cmdb.deadline_s, cmdb.on_failure, cmdb.on_deadline,
             cmdb.retries, cmdb.backoff_s, cmdb.clusters, cmdb.drivers, cmdb.kinds),
        )  # fmt: skip
        self.assertEqual(Webhook('https://ipam.example/kiln'), ipam.target)
        self.assertEqual(f'{self.file}:3', cmdb.origin)

    def test_a_webhook_can_have_a_secret_file_and_a_ca_file(self):
        secret = self.program('secret', 0o600)
        text = f"""
hooks:
- {{name: a, point: pre_create, url: 'http://localhost:1/', secret_file: {secret},
    ca_file: {PROGRAM}}}
"""
        self.file.write_text(text)
        (one,) = load_hooks(file=self.file)
        self.assertEqual(Webhook('http://localhost:1/', str(secret), PROGRAM), one.target)

    def test_all_mistakes_are_reported_at_once_with_line_and_column(self):
        text = f"""\
hooks:
  - name: Not A Name
    point: pre_lunch
    exec: [{PROGRAM}]
  - name: a
    point: post_delete
    on_failure: fail
    exec: [/no/such/program]
  - name: b
    point: pre_create
    url: ftp://x/
    secret_file: /no/such/secret
  - name: c
    point: pre_create
  - {{name: d, point: pre_create, exec: [relative], timout: 3}}
more: 1
"""
        found = self.problems(text)
        for place, why in (
            ('2:11', 'lowercase letters'), ('3:12', 'pre_create'), ('7:17', 'nothing can fail'),
            ('11:10', 'https://'), ('13:5', 'exec or url'), ('15:52', 'timeout'),
            ('16:1', 'hooks'),
        ):  # fmt: skip
            with self.subTest(place):
                self.assertTrue(
                    [one for one in found if f':{place}:' in one and why in one], found
                )

    def test_configured_files_are_checked(self):
        shared = self.program('shared', 0o644)
        text = f"""\
hooks:
  - {{name: a, point: pre_create, exec: [/no/such/program]}}
  - {{name: b, point: pre_create, exec: [bin/true]}}
  - {{name: c, point: pre_create, url: 'https://x/', secret_file: {shared}}}
  - {{name: d, point: pre_create, url: 'https://x/', ca_file: /no/such/file}}
"""
        self.file.write_text(text)
        with self.assertRaises(InvalidHooks) as caught:
            load_hooks(file=self.file)
        lines = [(one.line, one.message) for one in caught.exception.problems]
        for (line, message), (wanted, why) in zip(
            lines,
            [
                (2, 'No such file'),
                (3, 'absolute'),
                (4, 'other users can read'),
                (5, 'No such file'),
            ],
            strict=True,
        ):
            self.assertEqual(wanted, line)
            self.assertIn(why, message)

    def test_contradictory_keys_are_reported(self):
        for more, why in (
            (f"exec: [{PROGRAM}], url: 'https://x/'", 'remove one of them'),
            (f'exec: [{PROGRAM}], ca_file: {PROGRAM}', 'needs a url'),
            (f'exec: [{PROGRAM}], timeout: 2m, deadline: 1m', 'longer than the deadline'),
            (f'exec: [{PROGRAM}], retries: 2', 'not retried'),
        ):
            with self.subTest(more):
                text = f'hooks: [{{name: a, point: pre_create, {more}}}]'
                self.assert_problem(why, text)

    def test_the_name_driver_is_reserved(self):
        self.assert_problem(
            'cluster driver', f'hooks: [{{name: driver, point: pre_create, exec: [{PROGRAM}]}}]'
        )

    def test_a_file_without_a_list_of_hooks_is_reported(self):
        for text, why in (
            ('hooks: 5', 'list of hooks'),
            ('[1]', 'begin it with hooks'),
            ('hooks: []\n---\nhooks: []', 'a single document'),
            ('hooks: [', 'hooks.yaml:1'),
        ):
            with self.subTest(text):
                self.assert_problem(why, text)
        with self.assertRaisesRegex(InvalidHooks, 'No such file'):
            load_hooks(file=self.folder / 'none')

    def test_an_empty_file_has_no_hooks(self):
        self.assertEqual((), self.load(''))


class Urls(unittest.TestCase):
    def test_only_urls_that_cannot_be_read_in_transit_are_accepted(self):
        for url in ('https://x.example/a?b=c', 'https://x:8443', 'http://127.0.0.1:80/',
                    'http://[::1]/', 'http://localhost/'):  # fmt: skip
            self.assertEqual('', url_mistake(url), url)
        for url, why in (
            ('http://x.example/', 'https'),
            ('ftp://x.example/', 'https://'),
            ('https:///a', 'https://'),
            ('x.example', 'https://'),
            ('https://x/#a', 'https://'),
            ('https://kiln:hunter2@x/', 'user or password'),
            ('https://x:port/', 'not a URL'),
            ('https://[x/', 'not a URL'),
        ):
            self.assertIn(why, url_mistake(url), url)


class Packages(LoadCase):
    def test_000_8_a_package_offers_a_hook(self):
        (one,) = self.load(None, entry('news', 'announce'))
        self.assertEqual(
            ('news', Point.POST_CREATE, 7, f'module {__name__}'),
            (one.name, one.point, one.order, one.origin),
        )

    def test_an_entry_point_that_cannot_be_loaded_is_reported(self):
        for name, value, why in (
            ('news', 'missing', 'cannot be loaded'),
            ('news', 'no_hook', 'kiln.hooks.callers.plugins.hook'),
            ('news', 'refuse', 'nothing can fail'),
            ('driver', 'announce', 'rename'),
            ('News!', 'announce', 'rename'),
        ):
            with self.subTest(name, value=value):
                self.assert_problem(why, None, entry(name, value))


class Names(LoadCase):
    def test_a_name_declared_twice_at_a_point_is_reported_with_both_origins(self):
        self.program('post_create/10-news')
        (found,) = self.problems(None, entry('news', 'announce'))
        self.assertRegex(found, 'post_create/news is declared twice: .*10-news and module')

    def test_a_hook_is_found_by_name_or_by_point_and_name(self):
        self.program('pre_create/10-news')
        hooks = self.load(None, entry('news', 'announce'))
        for name, points in (
            ('news', [Point.PRE_CREATE, Point.POST_CREATE]),
            ('post_create/news', [Point.POST_CREATE]),
            ('old', []),
        ):
            found = [hook.point for hook in hooks if hook.is_named(name)]
            self.assertEqual(points, found, name)

    def test_mistakes_of_all_origins_are_reported_at_once(self):
        self.program('pre_lunch/10-news')
        self.assertEqual(3, len(self.problems('hooks: 5', entry('news', 'missing'))))


class Fields(unittest.TestCase):
    def test_every_key_has_a_help_text(self):
        self.assertTrue(all(field.help.endswith('.') for field in HOOK.fields.values()))
