"""Variables that a shell script uses and does not set; the names in capitals alone."""

from __future__ import annotations

import re

#: Set by a shell, or by what runs a script at the boot of a machine.
_KNOWN = re.compile(
    'PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|IFS|TERM|LANG|TZ|TMPDIR|HOSTNAME|UID|EUID|PPID|'
    'RANDOM|SECONDS|LINENO|OPTARG|OPTIND|PS1|PS4|REPLY|FUNCNAME|PIPESTATUS'
)
_PLAIN = re.compile(r"'[^']*'|(?m:^\s*#.*$)|\\.")
#: A here-document whose delimiter is quoted is text.
_QUOTED = re.compile(r'<<-?\s*([\'"\\])(\w+)[^\n]*\n.*?\n\s*\2\s*(?:\n|\Z)', re.DOTALL)
_USED = re.compile(r'\$(?:([A-Z][A-Z0-9_]+)|\{#?([A-Z][A-Z0-9_]+)([^}]*)\})')
#: Forms of an expansion that say what is to be without a value.
_OPTIONAL = (':-', '-', ':+', '+', ':=', '=', ':?', '?')
_SET = re.compile(r'\b([A-Z][A-Z0-9_]+)\+?=')
_NAMED = re.compile(r'\b(?:for|read|getopts|export|mapfile|readarray|select)\b([^\n;|]*)')
#: Others can set what they want.
_FOREIGN = re.compile(r'(?m)(?:^|[;&|]|\bthen|\bdo)\s*(?:\.|source|eval)\s')


def unset_variables(script: str) -> set[str]:
    """Return the variables that a script uses and never sets; none if it reads other files."""
    text = _PLAIN.sub(' ', _QUOTED.sub('\n', script))
    if _FOREIGN.search(text):
        return set()
    used = {
        found[1] or found[2]
        for found in _USED.finditer(text)
        if not (found[3] or '').startswith(_OPTIONAL)
    }
    named = ' '.join(found[1] for found in _NAMED.finditer(text))
    unset = used - set(_SET.findall(text)) - set(re.findall(r'[A-Z][A-Z0-9_]+', named))
    return {name for name in unset if not _KNOWN.fullmatch(name)}
