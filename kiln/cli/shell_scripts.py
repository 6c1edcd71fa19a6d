"""Scripts by which shells complete commands; pure.

Words and options stand in the script, so they come at once. Names of clusters and of
what they have are asked of kiln when they are needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from kiln.cli.command_tree import ANY, NAMES, CommandShape, Value

_BASH = r"""
_kiln() {
    local current=${COMP_WORDS[COMP_CWORD]} command='' first='' kind='' word choices=''
    local -a places
    local -i place=0 i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $kind ]]; then
            kind=''
        elif [[ $word == -* ]]; then
            kind=$(_kiln_value "$command" "$word")
        elif [[ " $(_kiln_next "$command") " == *" $word "* ]]; then
            command=${command:+$command }$word
        else
            ((place++)) || first=$word
        fi
    done
    if [[ -z $kind && $current == -* ]]; then
        choices=$(_kiln_options "$command")
    elif [[ -z $kind ]]; then
        ((place)) || choices=$(_kiln_next "$command")
        places=($(_kiln_places "$command"))
        if ((${#places[@]})); then
            # The last one may be repeated.
            ((place < ${#places[@]})) || place=${#places[@]}-1
            kind=${places[place]}
        fi
    fi
    case $kind in
        file) COMPREPLY=($(compgen -f -- "$current")); return ;;
        directory) COMPREPLY=($(compgen -d -- "$current")); return ;;
        '='*) choices=${kind#=}; choices=${choices//,/ } ;;
        '' | any) ;;
        *) choices+=" $(kiln completion --names "$kind" ${first:+--of "$first"} 2>/dev/null)" ;;
    esac
    [[ $kind != size ]] || compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -W "$choices" -- "$current"))
}
complete -F _kiln kiln
"""

_FISH = r"""
function __kiln_at --description 'Whether a command is complete so far, and how many arguments'
    set -l command
    set -l place 0
    set -l valued 0
    for word in (commandline -opc)[2..]
        if test $valued = 1
            set valued 0
        else if string match -q -- '-*' $word
            contains -- $word $__kiln_valued; and set valued 1
        else if contains -- (string join ' ' $command $word) $__kiln_commands
            set -a command $word
        else
            set place (math $place + 1)
        end
    end
    set -l whole (string join ' ' -- $command)
    test "$whole" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; and return 0
    test $place = $argv[2]; and return 0
    test (count $argv) -gt 2; and test $place -gt $argv[2]
end
function __kiln_names --description 'Names that kiln knows'
    set -l of
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and continue
        contains -- $word $__kiln_words; and continue
        set of --of $word
        break
    end
    kiln completion --names $argv[1] $of 2>/dev/null
end
complete -c kiln -f
"""


def bash(tree: Iterable[CommandShape]) -> str:
    """Return the script for bash."""
    shapes = tuple(tree)
    return ''.join(
        (
            "# Completes kiln in bash; made by 'kiln completion bash'.\n",
            *_cases('_kiln_next', ((one.name, ' '.join(one.next)) for one in shapes)),
            *_cases('_kiln_options', ((one.name, _options(one)) for one in shapes)),
            *_cases('_kiln_places', ((one.name, _places(one)) for one in shapes)),
            *_cases('_kiln_value', _values(shapes), '$1 $2'),
            _BASH,
        )
    )


def zsh(tree: Iterable[CommandShape]) -> str:
    """Return the script for zsh, which is taught to understand that for bash."""
    taught = 'autoload -Uz compinit bashcompinit && compinit -u && bashcompinit\n'
    return f'#compdef kiln\n{taught}{bash(tree)}'


def fish(tree: Iterable[CommandShape]) -> str:
    """Return the script for fish."""
    shapes = tuple(tree)
    commands = [one.name for one in shapes if one.words]
    valued = {
        name for one in shapes for option in one.options if option.value for name in option.names
    }
    words = {word for one in shapes for word in one.words}
    return '\n'.join(
        (
            "# Completes kiln in fish; made by 'kiln completion fish'.",
            f'set -g __kiln_commands {shlex.join(commands)}',
            f'set -g __kiln_words {shlex.join(sorted(words))}',
            f'set -g __kiln_valued {shlex.join(sorted(valued))}{_FISH}',
            *(line for shape in shapes for line in _fish_lines(shape)),
            '',
        )
    )


SCRIPTS: Mapping[str, Callable[[Iterable[CommandShape]], str]] = MappingProxyType(
    {'bash': bash, 'zsh': zsh, 'fish': fish}
)

# ---- bash ------------------------------------------------------------------------


def _cases(name: str, pairs: Iterable[tuple[str, str]], subject: str = '$1') -> Iterator[str]:
    yield f'{name}() {{\n    case "{subject}" in\n'
    for command, said in pairs:
        if said:
            yield f'    {shlex.quote(command)}) echo {shlex.quote(said)} ;;\n'
    yield '    esac\n}\n'


def _options(shape: CommandShape) -> str:
    return ' '.join(name for option in shape.options for name in option.names)


def _places(shape: CommandShape) -> str:
    kinds = [_kind(value) for value in shape.places]
    # Nothing follows the last one, unless it may be repeated.
    return ' '.join(kinds if not kinds or shape.places[-1].repeated else [*kinds, ANY])


def _values(shapes: Iterable[CommandShape]) -> Iterator[tuple[str, str]]:
    for shape in shapes:
        for option in shape.options:
            for name in option.names if option.value else ():
                assert option.value is not None
                yield f'{shape.name} {name}', _kind(option.value)


def _kind(value: Value) -> str:
    return f'={",".join(value.words)}' if value.words else value.kind


# ---- fish ------------------------------------------------------------------------


def _fish_lines(shape: CommandShape) -> Iterator[str]:
    at = f'__kiln_at {shlex.quote(shape.name)}'
    for word, help_ in shape.next.items():
        yield _fish_line(f'{at} 0', f'-a {shlex.quote(word)}', help_)
    for option in shape.options:
        names = ' '.join(
            f'-l {name.removeprefix("--")}' if name.startswith('--') else f'-s {name[1:]}'
            for name in option.names
        )
        takes = '' if option.value is None else f' {_fish_value(option.value)}'
        yield _fish_line(at, f'{names}{takes}', option.help)
    for place, value in enumerate(shape.places):
        if value.words or value.kind != ANY:
            more = ' more' if value.repeated else ''
            yield _fish_line(f'{at} {place}{more}', _fish_value(value).replace('-x ', ''), '')


def _fish_value(value: Value) -> str:
    if value.words:
        return f'-x -a {shlex.quote(" ".join(value.words))}'
    if value.kind in (*NAMES, 'size'):
        return f"-x -a '(__kiln_names {value.kind})'"
    if value.kind == 'directory':
        return "-x -a '(__fish_complete_directories)'"
    return '-r -F' if value.kind == 'file' else '-x'


def _fish_line(condition: str, what: str, help_: str) -> str:
    told = f' -d {shlex.quote(help_)}' if help_ else ''
    return f'complete -c kiln -n {shlex.quote(condition)} {what}{told}'
