"""Run the development cloud: ``python -m tools.devcloud`` or ``python tools/devcloud``."""

import pathlib
import sys

if not __package__:
    # Run as a folder: this folder is first on the path; the repository must be.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])

from tools.devcloud.cli import main

sys.exit(main())
