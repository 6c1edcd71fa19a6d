"""Wrong files, command lines and configurations: each is refused in a sentence, and at once.

KILN_BAD_INPUTS is the number of inputs of each kind: 30, or 2,000 at full size. KILN_SEED repeats
them.
"""

import collections
import copy
import json
import os
import pathlib
import random
import shutil
import tempfile
import unittest

import yaml

from kiln.cli.exit_codes import ExitCode
from kiln.conf.opts import list_opts
from tests.functional.hostile.runner import ROOT, Runner
from tests.functional.hostile.site import CONFIG, SiteFolder

INPUTS = int(os.environ.get('KILN_BAD_INPUTS', '30'))
SEED = int(os.environ.get('KILN_SEED', random.randrange(10**6)))
#: Characters of an answer at most, whatever was given.
MOST_SAID = 30_000
#: What no field, argument or option is made for; a lone surrogate is a byte that is not UTF-8.
TEXTS = (
    '', ' ', '\udcff', 'a\udc80b', '\U0001f600', '\x1b[31mred', 'nan', 'inf', '-inf', '1e308',
    '-1', '0', '99999999999999999999', 'x' * 5000, '../up', '--', '-', '{', '[', '{}', '[]',
    'null', 'true', "'", '"', '%s', '%', '{0}', '$(id)', '\n', 'a\nb', '\t', '=', '=1', 'work=',
    'work=nan', 'work=-1', ':', '::', '\u202e', '\uff11', '1_000', '0x10', '1.5', '1e3', 'a,b',
    ',', '#', '*', '!!python/object:os.system', '&a', '*a', 'http://[', 'sqlite://',
    'no/such/file', '\x7f', '~',
)  # fmt: skip
VALUES = (
    None, True, False, -1, 0, 10**30, -(10**30), 1.5, float('nan'), float('inf'), [], {}, [[]],
    {'a': 1}, ['x'] * 500, {f'k{n}': n for n in range(300)}, {1: 2}, {None: None}, b'\xff', *TEXTS,
)  # fmt: skip
#: Command lines that are right; some of their words are replaced.
LINES = (
    'cluster show web', 'cluster list', 'why web', 'why web node', 'cluster events web',
    'cluster receipt web', 'cluster check web', 'cluster scale web work=2 --plan',
    'cluster scale web work=2 --remove node --plan', 'cluster upgrade web --image two --plan',
    'cluster upgrade web --flavor small --parameter a=b --group work --plan',
    'cluster rollback web --plan', 'cluster rebuild web --plan', 'cluster reboot web --plan',
    'cluster pause web', 'cluster resume web', 'cluster cancel web', 'cluster retry web --no-wait',
    'cluster metrics web', 'cluster delete web --plan', 'cluster delete web --yes --timeout 60',
    'cluster adopt web work machine --plan', 'cluster migrate-driver web example_v1 --plan',
    'cluster rotate web ca --plan', 'node list web', 'node show web node', 'node console web node',
    'node remove web node --plan', 'node replace web node --plan', 'node reboot web node --plan',
    'template list', 'template show one', 'template remove one', 'compute list',
    'compute show one',
    'compute status one', 'compute console one --lines 5', 'compute check',
    'compute build --name one --flavor small --image two --count 2', 'compute delete one --yes',
    'compute suspend one', 'compute resume one', 'compute reboot one', 'compute rebuild one',
    'compute claim one --build-key one',
    'compute orphans --grace 1', 'driver list', 'driver show example_v1', 'driver doc example_v1',
    'driver lint example_v1', 'driver check', 'driver explain {folder}/web-3-one.yaml',
    'circuit list', 'circuit open noop read', 'circuit close noop read', 'hook list',
    'hook skip operation hook --reason because', 'image list', 'image show one',
    'image remove one --yes', 'image prune --keep 3 --yes', 'db check', 'db upgrade',
    'db purge --older-than 30', 'db backup {folder}/backup.db', 'db restore {folder}/nothing.db',
    'completion bash', 'schema', 'x web verb', 'up {folder}/web-3-one.yaml --yes --timeout 60',
    'plan {folder}/web-3-one.yaml --detailed-exitcode',
)  # fmt: skip
#: Commands that read a cluster file.
READERS = (
    ('plan',), ('plan', '--detailed-exitcode'), ('driver', 'explain'), ('template', 'save'),
    ('up', '--yes', '--no-wait'),
)  # fmt: skip
FILE = """\
cluster: web
driver: example_v1
image: one
flavor: small
keys: [me]
networks: [net]
sec_groups: [web]
parameters: {}
create_timeout: 10m
nodegroups:
  - name: work
    count: 3
    flavor: small
    zones: [az1, az2]
    health: {startup_timeout: 10m, max_unhealthy: 40%}
    strategy: {drain_timeout: 5m}
"""
#: Options whose right values can make a command wait, or write where no test should.
_LEFT_ALONE = ('_s', '_path', 'log_dir', 'log_file', 'cache', 'directory', 'folder')


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        away = self.folder / 'away'
        away.mkdir()
        # What a command writes by mistake, it writes there.
        homes = dict.fromkeys(('HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME', 'TMPDIR'), str(away))
        self.runner = Runner(os.environ | homes | {'PYTHONPATH': str(ROOT)}, cwd=away)
        self.addCleanup(self.runner.close)
        self.begin = SiteFolder(self.folder / 'begin')
        path = self.begin.page('web', 3)
        self.assertEqual(0, self.runner.run(*self.begin.argv('up', path, '--yes')).code)
        self.dice = random.Random(f'{SEED} {self.id()}')

    def try_all(self, one):
        """Try a function on copies of a site; it returns the words of a command."""
        codes = collections.Counter()
        for number in range(INPUTS):
            site = self.begin.copied(self.folder / str(number))
            words = one(site)
            # Whatever else ends badly is told too.
            ended = self.runner.run(*words)
            codes[ended.code] += 1
            with self.subTest(f'KILN_SEED={SEED}, number {number}', words=shown(words)):
                self.look(words, ended)
            shutil.rmtree(site.path)
        print(f'\nKILN_SEED={SEED}: exit codes {dict(codes)}', flush=True)

    def look(self, words, ended):
        code, out, err = ended
        said = f'{shown(words)}\n{out[-3000:]}{err[-3000:]}'
        self.assertIsNotNone(code, f'it hung: {said}')
        self.assertIn(code, set(ExitCode), said)
        self.assertNotIn(code, (ExitCode.UNFORESEEN, ExitCode.INTERRUPTED), said)
        for word in ('Traceback', 'defect of kiln', 'Errno', 'Exception'):
            self.assertNotIn(word, out + err, said)
        if code not in (ExitCode.OK, ExitCode.CHANGES):
            self.assertTrue((out + err).strip(), f'{code} without a word: {said}')
            self.assertLess(len(err), MOST_SAID, said)

    # ---- the kinds of input ------------------------------------------------------------------

    def test_command_lines(self):
        def line(site):
            words = site.argv(*self.dice.choice(LINES).split())
            given = range(2, len(words))
            for _ in range(self.dice.choice((1, 1, 2, 3))):
                at = self.dice.choice(given)
                kind = self.dice.randrange(5)
                if kind < 3:
                    words[min(at, len(words) - 1)] = self.dice.choice(TEXTS)
                elif kind == 3:
                    words.insert(at, self.dice.choice((*TEXTS, '--nothing', '-f', '--timeout')))
                else:
                    del words[-1]
            # These wait for somebody.
            return [*words[:2], *(one for one in words[2:] if one not in ('watch', 'conductor'))]

        self.try_all(line)

    def test_cluster_files(self):
        def file(site):
            path = site.path / 'given.yaml'
            path.write_bytes(self.content())
            words = self.dice.choice(READERS)
            return site.argv(*words, str(path))

        self.try_all(file)

    def test_configurations(self):
        groups = [
            (getattr(group, 'name', group), option.name)
            for group, options in list_opts()
            for option in options
            if not option.name.endswith(_LEFT_ALONE)
        ]

        def config(site):
            lines = CONFIG.format(folder=site.path, url=site.url).splitlines()
            for _ in range(self.dice.choice((1, 1, 2))):
                group, name = self.dice.choice(groups)
                group = 'compute:noop' if group.startswith('compute:') else group
                lines += [f'[{group}]', f'{name} = {self.dice.choice(TEXTS)}']
            if self.dice.random() < 0.3:
                lines.insert(self.dice.randrange(len(lines)), self.dice.choice(TEXTS))
            text = '\n'.join(lines) + '\n'
            site.config.write_bytes(self.spoilt(text.encode(errors='surrogateescape'), 0.2))
            return site.argv(*self.dice.choice((
                ('cluster', 'list'), ('plan', '{folder}/web-3-one.yaml'), ('db', 'check'),
                ('compute', 'list'), ('driver', 'list'), ('cluster', 'check', 'web'),
                ('cluster', 'scale', 'web', 'work=2', '--yes', '--no-wait'),
            )))  # fmt: skip

        self.try_all(config)

    # ---- what is wrong with a file -----------------------------------------------------------

    def content(self):
        kind = self.dice.randrange(8)
        if kind == 0:
            depth = self.dice.choice((50, 500, 5000, 100_000))
            return b'cluster: ' + self.dice.choice((b'[', b'{a: ', b'- ')) * depth
        if kind == 1:
            return FILE.encode(self.dice.choice(('utf-16', 'utf-16-be', 'utf-32', 'cp037')))
        if kind == 2:
            return self.dice.randbytes(self.dice.randrange(300))
        if kind == 3:
            return self.spoilt(FILE.encode(), 1.0)
        tree = yaml.safe_load(FILE)
        for _ in range(self.dice.choice((1, 1, 2, 4))):
            self.spoil(tree)
        dump = json.dumps if self.dice.random() < 0.2 else yaml.dump
        try:
            return dump(tree).encode(errors='surrogateescape')
        except TypeError:
            return yaml.dump(tree).encode(errors='surrogateescape')

    def spoil(self, tree):
        """Change one place of a tree."""
        places = list(holders(tree))
        holder = self.dice.choice(places)
        value = copy.deepcopy(self.dice.choice(VALUES))
        if isinstance(holder, list):
            if not holder or self.dice.random() < 0.4:
                holder.append(value)
            else:
                holder[self.dice.randrange(len(holder))] = value
            return
        keys = list(holder)
        if not keys or self.dice.random() < 0.3:
            key = self.dice.choice(TEXTS)
            holder[key] = value
        elif self.dice.random() < 0.2:
            del holder[self.dice.choice(keys)]
        else:
            holder[self.dice.choice(keys)] = value

    def spoilt(self, content, probability):
        """Return bytes with a few of them changed, or without the rest of them."""
        if self.dice.random() >= probability:
            return content
        content = bytearray(content)
        for _ in range(self.dice.randrange(1, 6)):
            at = self.dice.randrange(len(content))
            content[at : at + self.dice.randrange(3)] = self.dice.randbytes(self.dice.randrange(4))
        return bytes(content[: self.dice.randrange(len(content))] if self.dice.random() < 0.2
                     else content)  # fmt: skip


def holders(tree):
    """Yield all lists and mappings of a tree."""
    if isinstance(tree, dict | list):
        yield tree
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from holders(one)


def shown(words):
    return [one if len(one) < 200 else f'{one[:50]}... of {len(one)}' for one in words[2:]]


if __name__ == '__main__':
    unittest.main()
