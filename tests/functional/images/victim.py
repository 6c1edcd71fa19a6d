"""Process that builds one image repeatedly until it is killed."""

import pathlib
import sys

from kiln.images.building.builder import ImageBuilder
from kiln.images.cache import ImageCache
from kiln.images.programs import Programs
from tests.unit.images.host import recipe

folder = pathlib.Path(sys.argv[1])
builder = ImageBuilder(ImageCache(folder / 'cache'), Programs(str(folder / 'bin')))
while True:
    builder.build(recipe(), force=True)
    print('built', flush=True)
