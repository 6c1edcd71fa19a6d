"""Arguments of mmdebstrap, and the files that its hooks read."""

import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from kiln.images.archives.sources import Release, usual_sources
from kiln.images.build_request import Order, arguments, hooks, layer_script, packages
from kiln.images.building.staging import lay_out
from kiln.images.recipe import File, Layer, Variant
from tests.unit.images.host import recipe


def order(**facts):
    return Order(
        recipe=recipe(**facts),
        suite='bookworm',
        architecture='amd64',
        sources=usual_sources('bookworm'),
        releases=(Release(5, 'a'), Release(9, 'b'), Release(7, 'c')),
    )


class Arguments(unittest.TestCase):
    def given(self, **facts):
        return arguments(order(**facts), pathlib.Path('/stage'))

    def test_packages_paths_and_archives_are_passed(self):
        given = self.given(packages=('a', 'b=1'), exclude=('/usr/share/man/*',), keep=('/x',))
        for one in (
            '--include=a,b=1',
            '--dpkgopt=path-exclude=/usr/share/man/*',
            '--dpkgopt=path-include=/x',
            '--variant=apt',
            'deb http://deb.debian.org/debian bookworm main',
        ):
            self.assertIn(one, given)
        self.assertEqual(('bookworm', '/stage/image.tar'), given[-5:-3])
        # If several rules match a path, dpkg uses the last.
        self.assertLess(given.index('--dpkgopt=path-exclude=/usr/share/man/*'),
                        given.index('--dpkgopt=path-include=/x'))  # fmt: skip

    def test_empty_lists_are_not_passed(self):
        self.assertFalse([one for one in self.given(packages=()) if one.startswith('--include')])

    def test_layers_are_applied_in_order_with_files_before_scripts(self):
        files = (File(path='/etc/a'),)
        given = self.given(layers=(Layer(files=files, run='x'), Layer(), Layer(run='y')))
        found = [one.split('/')[1].split('"')[0] for one in given if '-hook=' in one]
        self.assertEqual(['begin', 'lay-0', 'run-0', 'run-2', 'end'], found)

    def test_a_script_follows_no_link_that_a_recipe_laid_in_its_place(self):
        """Finding L6: a file of the host was overwritten."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in 'image', 'stage', 'bin':
            (folder / name).mkdir()
        (folder / 'host').write_text('of the host')
        (folder / 'bin' / 'chroot').write_text('#!/bin/sh\ncat "$1/.kiln-run"\n')
        (folder / 'bin' / 'chroot').chmod(0o755)
        script = hooks(recipe(layers=(Layer(run='x'),)))['run-0']
        (folder / 'stage' / layer_script(0)).write_text('of the recipe')
        place = folder / 'image' / '.kiln-run'
        inner = folder / 'image' / 'laid'
        inner.mkdir()
        (inner / layer_script(0)).symlink_to(folder / 'host')
        for target in folder / 'host', inner:
            place.symlink_to(target)
            done = subprocess.run(
                ['/bin/sh', '-c', script, 'sh', str(folder / 'image')],
                env={'KILN_STAGE': str(folder / 'stage'), 'PATH': f'{folder}/bin:/usr/bin:/bin'},
                capture_output=True,
                check=True,
            )
            self.assertEqual(b'of the recipe', done.stdout)
            self.assertEqual('of the host', (folder / 'host').read_text())
            self.assertFalse(place.exists())

    def test_the_last_script_follows_no_link_that_a_script_of_the_recipe_left(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        bin_ = folder / 'bin'
        bin_.mkdir()
        (bin_ / 'dpkg-query').write_text('#!/bin/sh\necho a 1\n')
        (bin_ / 'dpkg-query').chmod(0o755)
        for number, (place, target) in enumerate({
            'etc': 'host', 'etc/apt/sources.list.d': 'host', 'var/lib/dpkg': 'host',
            'var/lib/dpkg/status': 'host/hostname', 'usr': 'host',
        }.items()):  # fmt: skip
            with self.subTest(place):
                image, host = folder / f'{number}', folder / 'host'
                host.mkdir(exist_ok=True)
                (host / 'hostname').write_text('of the host')
                (image / place).parent.mkdir(parents=True)
                (image / 'etc' / 'apt').mkdir(parents=True, exist_ok=True)
                if place == 'etc':
                    shutil.rmtree(image / 'etc')
                (image / place).symlink_to(folder / target)
                done = subprocess.run(
                    ['/bin/sh', '-c', hooks(recipe())['end'], 'sh', str(image)],
                    env={'KILN_STAGE': str(folder), 'PATH': f'{bin_}:/usr/bin:/bin'},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual('of the host', (host / 'hostname').read_text())
                # Where nothing of kiln is, a recipe can have any link.
                self.assertEqual(place != 'usr', bool(done.returncode), done.stderr)
                if place != 'usr':
                    self.assertIn('leads out of the image', done.stderr)

    def test_variant_extract_uses_extract_hooks(self):
        given = self.given(variant=Variant.EXTRACT, layers=(Layer(run='x'),))
        found = [one.partition('=')[0] for one in given if '-hook' in one]
        self.assertEqual(['--setup-hook', '--extract-hook', '--extract-hook'], found)

    def test_the_archives_are_removed_unless_kept(self):
        removal = 'rm -f "$1/etc/apt/sources.list"'
        self.assertIn(removal, hooks(recipe())['end'])
        self.assertNotIn(removal, hooks(recipe(keep_sources=True))['end'])

    def test_the_epoch_is_the_date_of_the_newest_archive(self):
        self.assertEqual(9, order().epoch)

    def test_versions_of_packages_are_read(self):
        self.assertEqual({'a': '1', 'b': '2:3'}, packages('a 1\nb 2:3\n\nbroken\n'))


class Staging(unittest.TestCase):
    def lay(self, *files):
        stage = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        lay_out(
            order(layers=(Layer(files=files, run='true\n'),)), stage, 'Acquire::Retries "0";\n'
        )
        return stage

    def test_files_are_packed_as_root_and_without_directories(self):
        stage = self.lay(
            File(path='/etc/motd', content=b'hello'),
            File(path='/usr/local/bin/x', content=b'#!', mode=0o755),
            File(path='/top', link='etc/motd'),
        )
        with tarfile.open(stage / 'layer-0.tar') as tar:
            found = {one.name: one for one in tar.getmembers()}
            self.assertEqual(['etc/motd', 'usr/local/bin/x', 'top'], list(found))
            self.assertEqual(b'hello', tar.extractfile('etc/motd').read())
        facts = {(one.uid, one.gid, one.mtime) for one in found.values()}
        self.assertEqual({(0, 0, 9)}, facts)
        self.assertEqual((0o644, 0o755), (found['etc/motd'].mode, found['usr/local/bin/x'].mode))
        self.assertEqual('etc/motd', found['top'].linkname)
        self.assertEqual('etc\nusr/local/bin\n\n', (stage / 'layer-0.folders').read_text())

    def test_the_settings_of_the_host_are_readable_by_the_owner_only(self):
        stage = self.lay()
        self.assertEqual(0o600, (stage / 'apt.conf').stat().st_mode & 0o777)
        self.assertEqual('true\n', (stage / 'layer-0.sh').read_text())
