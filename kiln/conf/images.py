"""Options of node images: where recipes are, and what is built of them is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

GROUP = 'images'

OPTS = [
    cfg.ListOpt(
        'image_path',
        default=['/usr/share/kiln/images', '/etc/kiln/images'],
        help='Directories in which each directory with an image.yaml is a recipe, called as it '
        'is. None shadows another: a recipe of one name in two of them cannot be built.',
    ),
    cfg.StrOpt(
        'cache',
        help='Directory of the images that were built; half a gigabyte each. Unset: '
        'kiln/images in $XDG_CACHE_HOME, which is ~/.cache where that is not set.',
    ),
    cfg.MultiStrOpt(
        'mirror',
        default=[],
        help='Archive to build from: a URL, or a line as in sources.list. May be repeated. '
        'Unset: those that this host has the suite from, or those of Debian.',
    ),
]


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where images are kept if the configuration does not say."""
    home = environment.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(home, 'kiln', 'images').absolute()
