"""Animals that check arguments too little or too much.

They differ only in the argument that they see wrongly, so they are tables:
name of the animal, behaviours that catch it, argument, what it sees there.
"""

import functools
import io

from kiln.exceptions import InvalidBuildRequest
from kiln.models import AmphoraType, Limits
from tests.kit.zoo.species import MOVED, REFUSED, MinimalAnimal, NoopAnimal, caught_by


class Lenient(MinimalAnimal):
    """Accepts an argument that it must refuse, by dropping it."""

    limits = Limits(
        amphora_types=frozenset({AmphoraType.VM, AmphoraType.CONTAINER}),
        refused_options=REFUSED | {'image_id'},
    )

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        if self.argument in given and self.sees(given[self.argument]):
            del given[self.argument]
        return super().build(*args, **given)


class Picky(NoopAnimal):
    """Refuses an argument that it must accept."""

    @functools.wraps(MinimalAnimal.build)
    def build(self, *args, **given):
        if self.argument in given and self.sees(given[self.argument]):
            raise InvalidBuildRequest(f'Cannot build: {self.argument} is not supported here.')
        return super().build(*args, **given)


def content(sees):
    """See a content among the files."""
    return lambda files: any(sees(value) for value in files.values())


def path(sees):
    """See a path among the files."""
    return lambda files: any(sees(path) for path in files)


FILES = 'config_drive_files'
LENIENT = [
    ('TakesAnyType', 'an_unknown_type_is_refused', 'amphora_type', lambda v: v == 'abacus'),
    (
        'TakesTypesOfOthers',
        'a_type_that_is_not_on_offer_is_refused',
        'amphora_type',
        lambda v: v == 'bare_metal',
    ),
    (
        'IgnoresOptions',
        (
            'an_unsupported_option_is_refused',
            'an_image_is_reported_as_it_was_given_or_refused',
            'building_again_with_an_image_returns_the_first_instance',
            MOVED.removeprefix('test_'),
        ),
        'image_id',
        lambda v: True,
    ),
    (
        'TakesLongNames',
        'a_name_that_is_too_long_is_refused',
        'name',
        lambda v: len(v or '') > 255,
    ),
    ('TakesEmptyNames', 'an_empty_name_is_refused', 'name', lambda v: v == ''),
    (
        'TakesLineEnds',
        'a_name_that_cannot_be_printed_is_refused',
        'name',
        lambda v: '\n' in str(v),
    ),
    ('TakesAnyKey', 'a_build_key_of_the_wrong_form_is_refused', 'build_key', lambda v: v == 'a/b'),
    ('ListsLetters', 'one_string_in_place_of_a_list_is_refused', 'keys', lambda v: v == 'abc'),
    (
        'TakesTwins',
        'a_list_that_names_something_twice_is_refused',
        'network_ids',
        lambda v: v == ['one', 'one'],
    ),
    (
        'TakesNumbers',
        'metadata_that_is_not_a_mapping_of_strings_is_refused',
        'metadata',
        lambda v: v == {'a': 1},
    ),
    (
        'GivesItselfAway',
        'metadata_under_a_reserved_key_is_refused',
        'metadata',
        lambda v: 'kiln:owner' in v,
    ),
    (
        'TakesAllMetadata',
        'more_metadata_than_allowed_is_refused',
        'metadata',
        lambda v: len(v) > 128,
    ),
    (
        'TakesAnyTimeout',
        'a_timeout_that_is_not_a_positive_number_is_refused',
        'timeout',
        lambda v: v == 'soon',
    ),
    (
        'TakesRelativePaths',
        'a_path_that_is_not_absolute_is_refused',
        FILES,
        path(lambda v: v == 'etc/motd'),
    ),
    ('TakesWaysUp', 'a_path_with_parent_references_is_refused', FILES, path(lambda v: '..' in v)),
    (
        'TakesNumbersForFiles',
        'a_file_that_is_neither_text_nor_bytes_is_refused',
        FILES,
        content(lambda v: v == 7),
    ),
    (
        'CountsCharacters',
        'the_size_of_text_is_counted_in_bytes',
        FILES,
        content(lambda v: isinstance(v, str) and v.startswith('ü')),
    ),
    (
        'TakesEndlessFiles',
        'an_endless_file_is_refused',
        FILES,
        content(lambda v: type(v).__name__ == 'Endless'),
    ),
    (
        'TakesAnyUserData',
        'user_data_that_is_neither_text_nor_bytes_is_refused',
        'user_data',
        lambda v: isinstance(v, dict),
    ),
]
PICKY = [
    ('NeedsAName', 'an_instance_that_was_given_no_name_has_one', 'name', lambda v: v is None),
    (
        'NeedsTypesAsTypes',
        'a_type_can_be_given_as_a_plain_string',
        'amphora_type',
        lambda v: v == 'vm' and not isinstance(v, AmphoraType),
    ),
    ('KnowsNoTimeout', 'a_build_can_be_given_a_timeout', 'timeout', lambda v: v == 120),
    ('TakesOneFile', 'as_many_files_as_allowed_are_taken', FILES, lambda v: len(v) == 5),
    (
        'TakesSmallFiles',
        'a_file_of_the_greatest_size_is_taken',
        FILES,
        content(lambda v: isinstance(v, bytes) and len(v) == 10240),
    ),
    ('ReadsOnlyAscii', 'a_file_can_be_text', FILES, content(lambda v: v == 'Grüße')),
    ('ReadsOnlyText', 'a_file_can_be_bytes', FILES, content(lambda v: v == bytes(range(256)))),
    (
        'ReadsOnlyBytes',
        'a_file_can_be_an_open_file',
        FILES,
        content(lambda v: isinstance(v, io.StringIO)),
    ),
    (
        'KnowsNoModes',
        'a_file_can_have_a_mode_and_an_owner',
        FILES,
        lambda v: v == {'/etc/key.pem': (b'Hello', 0o600, 'root')},
    ),
    ('TakesNothingEmpty', 'a_file_can_be_empty', FILES, content(lambda v: v == b'')),
    (
        'NeedsTextToStart',
        'user_data_can_be_text_or_bytes_or_an_open_file',
        'user_data',
        lambda v: v == b'\x1f\x8b\x00',
    ),
    (
        'TakesLittleUserData',
        'user_data_of_the_greatest_size_is_taken',
        'user_data',
        lambda v: isinstance(v, bytes) and len(v) == 49_149,
    ),
]
for species, table in ((Lenient, LENIENT), (Picky, PICKY)):
    for name, behaviour, argument, sees in table:
        body = {'argument': argument, 'sees': staticmethod(sees), '__doc__': species.__doc__}
        behaviours = (behaviour,) if isinstance(behaviour, str) else behaviour
        caught_by(*(f'test_{one}' for one in behaviours))(type(name, (species,), body))


class CarelessOfIds(MinimalAnimal):
    """Accepts an id that it must refuse, as one that nothing has."""

    unchecked = staticmethod(lambda amphora_id: False)

    def status(self, amphora_id):
        return super().status('nothing' if self.unchecked(amphora_id) else amphora_id)

    def delete(self, amphora_id, *, timeout=None):
        if not self.unchecked(amphora_id):
            super().delete(amphora_id, timeout=timeout)


@caught_by('test_an_empty_id_is_refused')
class TakesEmptyIds(CarelessOfIds):
    """Accepts an empty id."""

    unchecked = staticmethod(lambda amphora_id: amphora_id == '')


@caught_by('test_an_id_that_is_not_a_string_is_refused')
class TakesNumbersForIds(CarelessOfIds):
    """Accepts a number as an id."""

    unchecked = staticmethod(lambda amphora_id: isinstance(amphora_id, int))


@caught_by('test_a_cursor_that_is_not_a_string_is_refused')
class TakesAnyCursor(MinimalAnimal):
    """Takes nothing for the empty cursor."""

    def changes(self, since=''):
        return super().changes(since or '')


@caught_by('test_an_owner_of_the_wrong_form_is_refused')
class TakesAnyOwner(MinimalAnimal):
    """Returns an empty list for an owner that cannot exist."""

    def list_amphorae(self, *, owner=None):
        return iter(()) if owner and ' ' in owner else super().list_amphorae(owner=owner)
