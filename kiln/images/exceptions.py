"""Exceptions of node images that kiln raises to its callers."""

from __future__ import annotations

from kiln.clusters.exceptions import WithProblems
from kiln.exceptions import KilnError


class ImageError(KilnError):
    """Base class of all errors of node images."""

    code = 'image_error'


class InvalidRecipe(WithProblems):
    """A recipe is invalid."""

    code = 'invalid_recipe'
    remedy = 'Correct each reported line, then build the image again.'


class ImageNotFound(ImageError):
    """No recipe or no image has the name."""

    code = 'image_not_found'
    remedy = "Choose a name that 'kiln image list' shows, or build the image."


class AmbiguousRecipe(ImageError):
    """Two directories contain recipes of the same name."""

    code = 'ambiguous_recipe'
    remedy = 'Rename one of them: its directory, and the key image in its file.'


class BuildToolMissing(ImageError):
    """A program that is needed to build images is not installed."""

    code = 'build_tool_missing'
    remedy = 'Install the package named in the message.'


class ImageBuildForbidden(ImageError):
    """The user is not allowed to create a root file system."""

    code = 'image_build_forbidden'
    remedy = 'Build as root, or allow this user to use user namespaces.'


class MirrorUnavailable(ImageError):
    """A package archive cannot be reached, or does not have the suite."""

    code = 'mirror_unavailable'
    remedy = 'Try again, or use another archive with --mirror.'


class MirrorUntrusted(ImageError):
    """A package archive is not signed by a key that this host trusts."""

    code = 'mirror_untrusted'
    remedy = 'Put the key of the archive into /etc/apt/trusted.gpg.d, or use another archive.'


class PackageNotFound(ImageError):
    """The package archives do not have a package of the recipe."""

    code = 'package_not_found'
    remedy = 'Correct the recipe, or use an archive that has the package.'


class NoRoomForImage(ImageError):
    """The disk is full."""

    code = 'no_room_for_image'
    remedy = "Free disk space; 'kiln image prune' keeps only the newest image of each name."


class ImageBuildFailed(ImageError):
    """A build failed for a reason that kiln does not recognize."""

    code = 'image_build_failed'
    remedy = 'Read the log named in the message.'
