"""``python -m kiln.cli`` is the command."""

import sys

from kiln.cli.main import main

sys.exit(main())
