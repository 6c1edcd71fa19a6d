"""Files of a build, with the folders and accounts that its image has for them."""

import gzip
import io
import tarfile
import urllib.parse

from kiln.exceptions import BuildOutcomeUnknown, InvalidBuildRequest
from tests.unit.compute_drivers.docker.building.test_builds import (
    BROKEN,
    CREATED,
    IMAGE,
    MADE,
    NONE,
    REMOVED,
    STARTED,
    Case,
    I,
)
from tests.unit.compute_drivers.docker.scripted import answer

#: Answers about a file or a folder, and to the files that are copied.
THERE = COPIED = answer(b'')
MISSING = answer(b'', status=404)
NO_FILE = answer(b'{"message": "Could not find the file in container c1"}', status=404)


def packed(content, **given):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode='w') as tar:
        member = tarfile.TarInfo('passwd')
        member.size = len(content)
        for name, value in given.items():
            setattr(member, name, value)
        tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def tarred(content, **given):
    """Return an answer with a file of the image."""
    return answer(packed(content, **given), kind='application/x-tar')


PASSWD, GROUP = tarred(b'web:x:33:44::/:\n'), tarred(b'www:x:55:\n')


class FilesCase(Case):
    def build(self, driver, owner='web', key='k1'):
        files = {'/etc/a': (b'x', 0o600, owner)}
        return driver.build('container', name='web', build_key=key, config_drive_files=files)

    def copied(self, request):
        """Return the members of the archive in the body of a request."""
        self.assertIn('PUT', self.server.requests[request])
        with tarfile.open(fileobj=io.BytesIO(self.server.bodies[request])) as tar:
            return {member.name: member for member in tar.getmembers()}


class Folders(FilesCase):
    def test_only_missing_folders_are_made_and_outer_ones_first(self):
        asked = [THERE, THERE, MISSING, MISSING]
        self.build(self.open(NONE, IMAGE, MADE, *asked, COPIED, STARTED), owner='root')
        looked = [urllib.parse.unquote(one) for one in self.server.requests[4:8]]
        for path, request in zip(
            ('/etc', '/var', '/var/lib', '/var/lib/kiln'), looked, strict=True
        ):
            self.assertIn(f'/containers/{I}/archive?path={path} ', request)
        self.assertEqual(
            ['var/lib', 'var/lib/kiln', 'etc/a', 'var/lib/kiln/complete'], [*self.copied(8)]
        )

    def test_a_failure_of_the_engine_does_not_mean_that_a_folder_is_missing(self):
        failed = answer(b'', status=500)
        driver = self.open(CREATED, IMAGE, failed, BROKEN, *[THERE] * 3, COPIED, STARTED)
        with self.assertRaisesRegex(BuildOutcomeUnknown, 'made of cheese'):
            self.build(driver, owner='root')
        self.assertEqual(['HEAD', 'GET'], [one.split()[0] for one in self.server.requests[3:]])
        self.assertEqual(*[one.split()[1] for one in self.server.requests[3:]])

    def test_a_folder_that_is_found_after_a_failure_is_not_read(self):
        # It might be large: the engine announces more than it sends.
        failed, found = answer(b'', status=500), THERE.replace(b'Length: ', b'Length: 9')
        driver = self.open(CREATED, IMAGE, failed, found, *[THERE] * 3, COPIED, STARTED)
        self.assertEqual(I, self.build(driver, owner='root'))

    def test_folders_of_a_container_that_is_gone_are_not_missing_in_its_image(self):
        gone = [*[MISSING] * 4, NONE, NONE, IMAGE]
        driver = self.open(CREATED, IMAGE, *gone, MADE, *[THERE] * 4, COPIED, STARTED)
        self.build(driver, owner='root')
        self.assertEqual(['etc/a', 'var/lib/kiln/complete'], [*self.copied(-2)])


class Accounts(FilesCase):
    def finish(self, *accounts, owner='web'):
        """Finish a container, whose image answers so about its accounts."""
        driver = self.open(CREATED, IMAGE, *[THERE] * 4, *accounts)
        return self.build(driver, owner)

    def refused(self, *accounts):
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.finish(*accounts, REMOVED)
        self.assertIn('DELETE', self.server.requests[-1])
        return caught.exception

    def test_folders_and_accounts_of_an_image_are_looked_up_once(self):
        again = [NONE, MADE, COPIED, STARTED]
        driver = self.open(NONE, IMAGE, MADE, *[THERE] * 4, PASSWD, GROUP, COPIED, STARTED, *again)
        for key in 'k1', 'k2':
            self.assertEqual(I, self.build(driver, 'web:www', key))
        self.assertEqual(
            ['GET', 'POST', 'PUT', 'POST'],
            [one.split()[0] for one in self.server.requests[-4:]],
        )
        for path, request in (('passwd', 8), ('group', 9)):
            self.assertIn(f'archive?path=%2Fetc%2F{path} ', self.server.requests[request])
        self.assertEqual((33, 55), (self.copied(-2)['etc/a'].uid, self.copied(-2)['etc/a'].gid))

    def test_an_image_can_lack_a_list_of_accounts(self):
        self.assertEqual(I, self.finish(PASSWD, NO_FILE, COPIED, STARTED))
        for accounts in ((PASSWD, NO_FILE, REMOVED), (NO_FILE, GROUP, REMOVED)):
            with self.assertRaisesRegex(InvalidBuildRequest, "no account 'web:www' to own"):
                self.finish(*accounts, owner='web:www')

    def test_a_failure_of_the_engine_does_not_mean_that_there_are_no_accounts(self):
        with self.assertRaisesRegex(BuildOutcomeUnknown, 'made of cheese'):
            self.finish(BROKEN, GROUP, REMOVED)

    def test_a_list_of_accounts_that_is_too_long_is_refused(self):
        long = tarred(b'x' * (1024 * 1024 + 1))
        self.assertIn(
            'its image has a /etc/passwd that cannot be read: the answer has more than 1048576',
            str(self.refused(long)),
        )

    def test_of_a_list_that_is_far_too_long_the_rest_is_not_read(self):
        # The engine announces more than it sends.
        long = tarred(b'x' * 1064 * 1024).replace(b'Length: ', b'Length: 1')
        self.assertIn('more than 1048576', str(self.refused(long)))

    def test_what_is_not_a_list_of_accounts_is_refused(self):
        for found in (
            answer(b'passwd', kind='application/x-tar'),
            answer(gzip.compress(packed(b'')), kind='application/x-tar'),
            answer(bytes(tarfile.RECORDSIZE), kind='application/x-tar'),
            tarred(b'', type=tarfile.DIRTYPE),
            tarred(b'', type=tarfile.SYMTYPE, linkname='../run/passwd'),
            tarred(b'', type=tarfile.SYMTYPE, linkname='passwd'),
        ):
            error = self.refused(found)
            self.assertIn('a /etc/passwd that cannot be read: ', str(error))
            self.assertIsInstance(error.__cause__, tarfile.TarError)
