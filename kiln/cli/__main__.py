"""``python -m kiln.cli`` is the command."""

from kiln.cli.main import main

main()
