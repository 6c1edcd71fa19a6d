"""Every error of node images that a caller of kiln may see."""

from __future__ import annotations

from kiln.cluster_exceptions import WithProblems
from kiln.exceptions import KilnError


class ImageError(KilnError):
    """Root of all errors of node images; nothing half done has a name of its own."""

    code = 'image_error'


class InvalidRecipe(WithProblems):
    """A recipe cannot be built as it is written."""

    code = 'invalid_recipe'


class ImageNotFound(ImageError):
    """There is no recipe of the name, or nothing was built of it."""

    code = 'image_not_found'
    remedy = "Choose one that 'kiln image list' shows, or build it."


class AmbiguousRecipe(ImageError):
    """Two directories hold a recipe of one name."""

    code = 'ambiguous_recipe'
    remedy = 'Call one of them otherwise: its directory, and the key image in its file.'


class BuildToolMissing(ImageError):
    """A program that images are built with is not installed."""

    code = 'build_tool_missing'
    remedy = 'Install the package that the message names.'


class ImageBuildForbidden(ImageError):
    """The system does not let this user make a root file system."""

    code = 'image_build_forbidden'
    remedy = 'Build as root, or let this user have user namespaces.'


class MirrorUnavailable(ImageError):
    """A package archive does not answer, or has no such suite."""

    code = 'mirror_unavailable'
    remedy = 'Try again, or name another archive with --mirror.'


class MirrorUntrusted(ImageError):
    """An archive is not signed by a key that this host trusts."""

    code = 'mirror_untrusted'
    remedy = 'Have the key of the archive in /etc/apt/trusted.gpg.d, or name another archive.'


class PackageNotFound(ImageError):
    """A package of the recipe is not in the archives."""

    code = 'package_not_found'
    remedy = 'Correct the recipe, or name an archive that has the package.'


class NoRoomForImage(ImageError):
    """The disk is full."""

    code = 'no_room_for_image'
    remedy = "Make room; 'kiln image prune' removes images that are not the newest."


class ImageBuildFailed(ImageError):
    """The build came to an end of which nothing more is known."""

    code = 'image_build_failed'
    remedy = 'Read the log that the message names.'
