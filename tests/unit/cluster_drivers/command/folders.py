"""Folders of command drivers for tests, with small programs for the shell."""

DRIVER = """\
name: acme_v1
version: 1.0.0
provides:
  - {server_type: '*', os: '*', coe: acme}
base: command
program: program
"""
DESCRIBED = (
    '{"type": "result", "api": "kiln.command/1", "verbs": '
    '["describe", "create", "update", "delete", "status"]}'
)
#: Describes itself, and does what the test adds for other verbs.
PROGRAM = """\
#!/bin/sh
case $1 in
describe) echo '%s' ;;
%s
esac
"""


def write_driver(root, cases='*) exit 1 ;;', *, yaml=DRIVER, described=DESCRIBED, mode=0o755):
    """Write the folder of a driver, and return it."""
    folder = root / 'acme_v1'
    folder.mkdir()
    (folder / 'driver.yaml').write_text(yaml)
    program = folder / 'program'
    program.write_text(PROGRAM % (described, cases))
    program.chmod(mode)
    return folder
