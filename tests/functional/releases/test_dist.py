"""Archives of a release: the same bytes for the same commit, wherever they are built."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[3]
FOLDERS = ('kiln', 'tools')
FILES = ('LICENSE', 'MANIFEST.in', 'README.rst', 'pyproject.toml', 'setup.cfg', 'setup.py')
DAY_S = 86400


class DistTest(unittest.TestCase):
    """Builds a commit of this tree twice, in folders that share nothing but the commit."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.committed = cls.folder / 'committed'
        cls.committed.mkdir()
        caches = shutil.ignore_patterns('__pycache__')
        for name in FOLDERS:
            shutil.copytree(ROOT / name, cls.committed / name, ignore=caches)
        for name in FILES:
            shutil.copy2(ROOT / name, cls.committed / name)
        cls.git('init', '--quiet')
        cls.git('add', '--all', '--force')
        cls.git('commit', '--quiet', '--message', 'all')
        cls.first = cls.build('first', umask=0o022)
        cls.second = cls.build('another place für kiln', umask=0o077)

    @classmethod
    def git(cls, *arguments):
        names = ('AUTHOR_NAME', 'AUTHOR_EMAIL', 'COMMITTER_NAME', 'COMMITTER_EMAIL')
        names = {f'GIT_{one}': 'kiln@example.org' for one in names}
        env = (
            os.environ | names | {'GIT_CONFIG_GLOBAL': os.devnull, 'GIT_CONFIG_SYSTEM': os.devnull}
        )
        subprocess.run(['git', *arguments], cwd=cls.committed, env=env, check=True)

    @classmethod
    def build(cls, name, umask):
        """Return the bytes of each archive that a clone makes, whose files are of another day."""
        clone, output = cls.folder / name, cls.folder / f'{name} built'
        cls.git('clone', '--quiet', '.', str(clone))
        if name != 'first':
            for path in clone.rglob('*'):
                os.utime(path, (DAY_S, DAY_S))
            (clone / 'kiln' / 'not_committed.py').write_text('LEFT = "by somebody"\n')
        done = subprocess.run(
            [sys.executable, '-m', 'tools.dist', str(output)],
            cwd=clone, umask=umask, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return {path.name: path.read_bytes() for path in output.iterdir()}

    def test_a_commit_built_twice_gives_the_same_bytes(self):
        self.assertEqual(['.whl', '.gz'], [pathlib.Path(one).suffix for one in sorted(self.first)])
        self.assertEqual(self.first.keys(), self.second.keys())
        for name, content in self.first.items():
            # Not assertEqual, which would print both.
            self.assertTrue(content == self.second[name], f'{name} differs')

    def test_only_what_is_committed_is_built(self):
        wheel = next(one for name, one in self.second.items() if name.endswith('.whl'))
        self.assertNotIn(b'not_committed', wheel)
        self.assertIn(b'kiln/models.py', wheel)
