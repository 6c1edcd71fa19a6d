"""Build failures: errors recognized in the last lines of the log; no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kiln.images.exceptions import (
    ImageBuildFailed,
    ImageBuildForbidden,
    ImageError,
    MirrorUnavailable,
    MirrorUntrusted,
    NoRoomForImage,
    PackageNotFound,
)
from kiln.images.recipe import Recipe

#: Patterns of log lines, with the class and text of the error. The first pattern that
#: matches any line is the reason; other errors are consequences.
_REASONS: Sequence[tuple[str, type[ImageError], str]] = (
    (r'No space left on device', NoRoomForImage,
     'the disk is full; free disk space, or set another [images] cache'),
    (r'^E: Unable to locate package (\S+)', PackageNotFound,
     'the archives have no package {0}'),
    (r"^E: Couldn't find any package by .* '([^']+)'", PackageNotFound,
     'the archives have no package {0}'),
    (r"^E: Package '([^']+)' has no installation candidate", PackageNotFound,
     'the archives have no package {0}'),
    (r"^E: (?:Version|Release) '([^']+)' for '([^']+)' was not found", PackageNotFound,
     'the archives have package {1}, but not as {0}'),
    (r"^[WE]: GPG error: (\S+ \S+).*?: (.*)", MirrorUntrusted,
     'the signature of {0} is not trusted: {1}'),
    (r"^E: The repository '([^']+)' is not signed", MirrorUntrusted,
     '{0} is not signed'),
    (r"^E: The repository '([^']+)' does(?: not|n't) have a Release file", MirrorUnavailable,
     '{0} does not exist'),
    (r'^E: Failed to fetch (\S+) +(.*)', MirrorUnavailable, '{0}: {1}'),
    (r'^(?:unshare|newuidmap|newgidmap): (.*)', ImageBuildForbidden,
     'this user is not allowed to do this: {0}'),
    (r'^E: (?:mount|unshare|mknod)\b.*failed: (.*)', ImageBuildForbidden,
     'this user is not allowed to do this: {0}'),
    (r'^E: kiln: (.*)', ImageBuildFailed, '{0}'),
)  # fmt: skip
# Messages with which mmdebstrap itself exits.
_WAY_OUT = re.compile(r'E: (setup failed|command failed|mmdebstrap failed|.* failed with exit)')


def failure(recipe: Recipe, status: int, lines: Iterable[str], log: str) -> ImageError:
    """Return the error for a build, from its exit status and its last lines.

    ``log`` is the path of the complete log.
    """
    said = list(lines)
    kind, reason = _known(said) or (ImageBuildFailed, _last_words(said, status))
    return kind(f'Cannot build image {recipe.name}: {reason.rstrip(".")}. The log is {log}')


def _known(said: Sequence[str]) -> tuple[type[ImageError], str] | None:
    for pattern, kind, text in _REASONS:
        for line in said:
            if found := re.search(pattern, line):
                return kind, text.format(*(one.rstrip('.') for one in found.groups()))
    return None


def _last_words(said: Sequence[str], status: int) -> str:
    errors = [line for line in said if line.startswith('E: ')]
    own = [line for line in errors if not _WAY_OUT.match(line)]
    # A script reports its error in its last line, without the prefix E:.
    told = [line for line in said if not line.startswith(('I: ', 'W: ', 'E: '))]
    words = own[:1] or told[-1:] or errors[:1] or [f'it ended with status {status}']
    return words[0].removeprefix('E: ')
