"""Why a build failed, from the last it said; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kiln.image_exceptions import (
    ImageBuildFailed,
    ImageBuildForbidden,
    ImageError,
    MirrorUnavailable,
    MirrorUntrusted,
    NoRoomForImage,
    PackageNotFound,
)
from kiln.images.recipe import Recipe

#: What a failure says, the class of its error, and what to tell of it. The first that
#: fits any line is the reason: what others say follows from it.
_REASONS: Sequence[tuple[str, type[ImageError], str]] = (
    (r'No space left on device', NoRoomForImage,
     'the disk is full; make room, or set another [images] cache'),
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
     'nobody has signed {0}'),
    (r"^E: The repository '([^']+)' does(?: not|n't) have a Release file", MirrorUnavailable,
     'there is no {0}'),
    (r'^E: Failed to fetch (\S+) +(.*)', MirrorUnavailable, '{0}: {1}'),
    (r'^(?:unshare|newuidmap|newgidmap): (.*)', ImageBuildForbidden,
     'this user may not: {0}'),
    (r'^E: (?:mount|unshare|mknod)\b.*failed: (.*)', ImageBuildForbidden,
     'this user may not: {0}'),
    (r'^E: kiln: (.*)', ImageBuildFailed, '{0}'),
)  # fmt: skip
# What mmdebstrap says of its own way out.
_WAY_OUT = re.compile(r'E: (setup failed|command failed|mmdebstrap failed|.* failed with exit)')


def failure(recipe: Recipe, status: int, lines: Iterable[str], log: str) -> ImageError:
    """Return the error for a build that ended with a status, after some lines.

    ``log`` is where all of them are.
    """
    said = list(lines)
    kind, reason = _known(said) or (ImageBuildFailed, _last_words(said, status))
    return kind(f'Cannot build image {recipe.name}: {reason.rstrip(".")}. All of it is in {log}')


def _known(said: Sequence[str]) -> tuple[type[ImageError], str] | None:
    for pattern, kind, text in _REASONS:
        for line in said:
            if found := re.search(pattern, line):
                return kind, text.format(*(one.rstrip('.') for one in found.groups()))
    return None


def _last_words(said: Sequence[str], status: int) -> str:
    errors = [line for line in said if line.startswith('E: ')]
    own = [line for line in errors if not _WAY_OUT.match(line)]
    # A script says what went wrong in its last words, and not as an error.
    told = [line for line in said if not line.startswith(('I: ', 'W: ', 'E: '))]
    words = own[:1] or told[-1:] or errors[:1] or [f'it ended with status {status}']
    return words[0].removeprefix('E: ')
