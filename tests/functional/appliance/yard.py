"""Machines whose commands detect what must never happen on a machine.

A claim command must find the machine wiped, or its own work of an earlier run; a wipe
command must find its amphora; and neither must find another command running.
"""

import pathlib
import stat

from tests.unit.compute_drivers.appliance.samples import options_of

_CLAIM = """\
#!/bin/sh
cd {folder}
. ./alone
owner=$(cat "$KILN_MACHINE.owner" 2>/dev/null)
case "$owner" in
  ""|"$KILN_AMPHORA_ID") ;;
  *) echo "$KILN_MACHINE: claimed by $KILN_AMPHORA_ID, unwiped from $owner" >> wrong ;;
esac
echo "$KILN_AMPHORA_ID" > "$KILN_MACHINE.owner"
sleep {seconds}
test -e "$KILN_FOLDER/user_data" || echo "$KILN_MACHINE: no user data" >> wrong
rm -f "$KILN_MACHINE.busy"
"""
_WIPE = """\
#!/bin/sh
cd {folder}
. ./alone
owner=$(cat "$KILN_MACHINE.owner" 2>/dev/null)
case "$owner" in
  ""|"$KILN_AMPHORA_ID") ;;
  *) echo "$KILN_MACHINE: wiped for $KILN_AMPHORA_ID, claimed by $owner" >> wrong ;;
esac
sleep {seconds}
rm -f "$KILN_MACHINE.owner" "$KILN_MACHINE.busy"
"""
_ALONE = """\
other=$(cat "$KILN_MACHINE.busy" 2>/dev/null)
# A dead process that was not reaped is not running.
if grep -q '^State:.[^ZX]' "/proc/${{other:-none}}/status" 2>/dev/null; then
  echo "$KILN_MACHINE: $KILN_VERB while $other is running" >> wrong
fi
echo $$ > "$KILN_MACHINE.busy"
"""


class StrictYard:
    """A pool in a folder, for any number of processes."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def make(self, count, seconds):
        for name, text in (('alone', _ALONE), ('claim', _CLAIM), ('wipe', _WIPE)):
            path = self.folder / name
            path.write_text(text.format(folder=self.folder, seconds=seconds))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        (self.folder / 'machines.toml').write_text(
            '[defaults]\ntype = "bare_metal"\n'
            f'claim = ["{self.folder}/claim"]\nwipe = ["{self.folder}/wipe"]\n'
            + ''.join(
                f'[machines.m{number:02}]\naddresses = ["192.0.2.{number}"]\n'
                for number in range(count)
            )
        )
        return self

    @property
    def options(self):
        return options_of(
            inventory=str(self.folder / 'machines.toml'), state_dir=str(self.folder / 'state')
        )

    def wrong(self):
        path = self.folder / 'wrong'
        return path.read_text().splitlines() if path.exists() else []

    def owners(self):
        return {path.stem for path in self.folder.glob('*.owner')}
