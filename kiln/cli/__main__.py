"""Entry point of ``python -m kiln.cli``."""

from kiln.cli.main import main

main()
