"""Wrapper around runc for machines that lack a capability which containers need.

Only for test machines, and only where CAP_SYS_RESOURCE is missing from the bounding
set: there a privileged container, a raised limit or a protected process cannot start.
"""

import pathlib
import shutil

from .errors import EngineError

_CAP_SYS_RESOURCE = 24

_SCRIPT = r"""#!/bin/sh
# Takes out of a container's description what this machine cannot give.
bundle=. process= before=
for word; do
    case $before in
        --bundle | -b) bundle=$word ;;
        --process | -p) process=$word ;;
    esac
    case $word in
        --bundle=*) bundle=${word#*=} ;;
        --process=*) process=${word#*=} ;;
    esac
    before=$word
done
for spec in "$bundle/config.json" "$process"; do
    [ -f "$spec" ] && sed -i -E '
        s/"CAP_SYS_RESOURCE",?//g; s/,\]/]/g
        s/"rlimits": ?\[[^]]*\]/"rlimits":[]/
        s/"oomScoreAdj": ?-[0-9]+/"oomScoreAdj":0/' "$spec"
done
exec RUNC "$@"
"""


def needed(status: str | None = None) -> bool:
    """Return True if this machine lacks the capability; ``status`` is that of a process."""
    status = pathlib.Path('/proc/self/status').read_text() if status is None else status
    bounding = next(line for line in status.splitlines() if line.startswith('CapBnd:'))
    return not int(bounding.split()[1], 16) >> _CAP_SYS_RESOURCE & 1


def find_runc() -> str:
    """Return the path of runc."""
    runc = shutil.which('runc', path='/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin')
    if runc is None:
        raise EngineError('runc is not installed: apt-get install runc')
    return runc


def write(path: pathlib.Path, runc: str) -> None:
    """Write the wrapper around a runc."""
    path.write_text(_SCRIPT.replace('RUNC', runc))
    path.chmod(0o755)
