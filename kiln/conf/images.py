"""Options of node images: recipes, cache and package archives."""

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
        help='Directories whose subdirectories with an image.yaml are recipes, named like the '
        'image. They do not shadow each other: a name in two of them cannot be built.',
    ),
    cfg.StrOpt(
        'cache',
        help='Directory of built images; half a gigabyte each. Unset: kiln/images in '
        '$XDG_CACHE_HOME, or in ~/.cache.',
    ),
    cfg.MultiStrOpt(
        'mirror',
        default=[],
        help='Package archive for builds: a URL, or a line as in sources.list. Can be repeated. '
        'Unset: the archives of this host for the suite, or those of Debian.',
    ),
]


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the default cache directory."""
    home = environment.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(home, 'kiln', 'images').absolute()
