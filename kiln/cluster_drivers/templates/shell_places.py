"""Places of a shell script at which a quoted value stays one word, whatever it is.

The scanner follows the part of the shell's grammar that sh, dash, bash and ash read alike. At
anything else it stops, and no place after that is proven.
"""

from __future__ import annotations

import functools
import re

#: A value that quotes itself; a placeholder for harmless text, which can be empty.
QUOTED, BARE = '\x01', '\x02'


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII | re.VERBOSE)


_CONTROL = re.compile(r'[\x00\x03-\x08\x0b-\x1f\x7f]')
_BLANK = _pattern(r'[ \t]+ (?:\\\n[ \t]*)?')
_PLAIN = _pattern(r'[\w./:@%+,=~*?\[\]{}!^\#-]+ | \\[^\n\x01\x02]')
# Arithmetic and parameters that contain neither quotes nor commands.
_EXPANSION = _pattern(
    r"""\$\(\( [\w\ \t+*/%<>=!?:,|&^~$\x02-]* \)\)
    | \$\{ (?:\#?\w+ | \w+(?::?[-=?+]|%%?|\#\#?)[\w./:@%+,=~*?-]*) \}
    | \$[\w?!\#@*$-]
    | \$(?=[\s./:@%+,=~^}\]]|\Z)"""
)
_SINGLE = re.compile(r"'[^']*'")
_DOUBLE = re.compile(r'(?:[^"\\$`]|\\[^\x02]|\$(?=["\']))+')
_SEPARATOR = _pattern(r'\n | && | \|\| | ;(?![;&]) | \|(?![|&]) | &(?![&>])')
_REDIRECTION = _pattern(r'(?: <> | [<>]& | >> | >\| | [<>] )(?![<>(&|])')
_DOCUMENT = _pattern(r"""<<(-?) [ \t]* (?: '(\w+)' | "(\w+)" | (\w+) )(?=[ \t\n;|>]|\Z)""")
_FUNCTION = _pattern(r'[A-Za-z_]\w*[ \t]*\(\)')
_ASSIGNMENT = _pattern(r'[A-Za-z_]\w*\+?=')
_LINE = _pattern(r'[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=\x01(?=\n|\Z)')
_COMMAND = _pattern(r'[\w./+-]+')
_ARGUMENT = _pattern(r'[\w./:@%+,=\x01-]+')
_FORMAT = _pattern(r"""['"]?[\w%\[(<]""")
# A here-document whose word has no quotes expands these, and joins lines at a backslash.
_LIVE = _pattern(r'` | \$[({\x02] | \\(?:\x02|\Z)')
_MAYBE_WORD = _pattern(r'[\w\t]*+\x02[\w\t\x02]*+')

_RESERVED = {'if', 'then', 'elif', 'else', 'fi', 'while', 'until', 'do', 'done', '{', '}', '!'}
# Words that change how the rest is read, not in every shell alike.
_CHANGING = _pattern(
    r'case | esac | select | function | alias | declare | typeset | local | \[\[ | coproc | shopt'
)
# Commands of a shell that read an argument as code, arithmetic, a name or an option.
_READING = _pattern(
    r"""eval | \. | source | command | builtin | let | read | mapfile | readarray | unset | trap
    | test | \[ | export | readonly | getopts | time | for | set | wait | exec | hash | type
    | jobs | fc | bind | enable | complete | compgen | compopt"""
)
# Variables that a shell evaluates, or that decide how it works.
_OF_SHELL = _pattern(
    r"""BASH\w* | COMP_\w+ | ENV | EPOCH\w+ | FUNCNAME | GLOBIGNORE | HIST\w+ | IFS | LD_\w+
    | LINENO | OPTIND | PATH | POSIXLY_CORRECT | PROMPT_COMMAND | PS\d | S?RANDOM | SECONDS
    | SHELLOPTS | TIMEFORMAT"""
)
_DEEPEST = 20


class _Lost(Exception):
    """The scanner cannot follow the script."""


class _Command:
    """The command that is being read: what opened it, its words, the start of the next."""

    def __init__(self, opener: str) -> None:
        self.opener = opener
        self.clear()

    def clear(self) -> None:
        self.words: list[str] = []
        self.start: int | None = None
        self.is_target = False


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        #: Why each place that was read is refused; empty if it is not.
        self.judged: dict[int, str] = {}
        self.stack = [_Command('')]
        self.document: re.Match[str] | None = None

    def refusals(self) -> list[str]:
        lost = ''
        try:
            if _CONTROL.search(self.text):
                raise _Lost
            while self.at < len(self.text):
                self.quotes() if self.stack[-1].opener == '"' else self.command(self.stack[-1])
            self.end_word(self.stack[-1])
        except _Lost:
            line = self.text.count('\n', 0, self.at) + 1
            lost = f'kiln cannot follow the script from line {line} on'
        places = (one.start() for one in re.finditer(QUOTED, self.text))
        return [self.judged.get(place, lost or 'it is within quotes') for place in places]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read what a pattern matches here."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def judge(self, start: int, why: str) -> None:
        """Note a reason for each place from a start to here, unless there is one."""
        while (start := self.text.find(QUOTED, start, self.at)) >= 0:
            self.judged.setdefault(start, why)
            start += 1

    def within_line(self, start: int) -> None:
        # The here-document of this line begins after a newline, outside of quotes.
        if self.document and '\n' in self.text[start : self.at]:
            raise _Lost

    def command(self, command: _Command) -> None:
        """Read the next part of a command."""
        start, char = self.at, self.text[self.at]
        if char in ' \t':
            self.take(_BLANK)
            self.end_word(command, start)
            self.within_line(start)
        elif char in '\n;&|':
            self.separator(command)
        elif char in '<>':
            self.redirection(command)
        elif char == ')' and command.opener:
            self.close(command)
        elif command.start is None and char == '#':
            self.comment()
        elif command.start is None and char == '(' and not (command.words or command.is_target):
            self.open('(')
        elif command.start is not None or command.words or not self.take(_FUNCTION):
            command.start = start if command.start is None else command.start
            self.piece(char)

    def close(self, command: _Command) -> None:
        self.end_word(command)
        self.at += 1
        self.stack.pop()
        if command.opener == '(':
            # Only a redirection can follow, and a value is not proven there.
            self.stack[-1].words.append(')')

    def piece(self, char: str) -> None:
        """Read a part of a word."""
        if char in QUOTED + BARE:
            # Empty text would join its neighbours to something else.
            before = self.text[self.at - 1] if self.at else ''
            if before in tuple('\\$<>(;&|') or self.text.startswith('#', self.at + 1):
                raise _Lost
            self.at += 1
        elif single := self.take(_SINGLE):
            self.judge(single.start(), 'it is within quotes')
            self.within_line(single.start())
        elif char == '"':
            self.stack.append(_Command('"'))
            self.at += 1
        elif not (self.take(_PLAIN) or self.take(_EXPANSION)):
            self.open('$(')

    def open(self, opener: str) -> None:
        """Begin the commands within parentheses."""
        arithmetic = self.text.startswith(opener + '(', self.at)
        if (
            len(self.stack) > _DEEPEST
            or self.document
            or arithmetic
            or not self.text.startswith(opener, self.at)
        ):
            raise _Lost
        self.at += len(opener)
        self.stack.append(_Command(opener))

    def quotes(self) -> None:
        if self.text[self.at] == '"':
            self.stack.pop()
            self.at += 1
        elif part := self.take(_DOUBLE):
            self.judge(part.start(), 'it is within quotes')
            self.within_line(part.start())
        elif not self.take(_EXPANSION):
            self.open('$(')

    def comment(self) -> None:
        if len(self.stack) > 1:
            raise _Lost
        start, end = self.at, self.text.find('\n', self.at)
        self.at = end if end >= 0 else len(self.text)
        self.judge(start, 'it is in a comment')

    def separator(self, command: _Command) -> None:
        start = self.at
        if not self.take(_SEPARATOR):
            raise _Lost
        self.end_word(command, start)
        command.clear()
        if self.document and self.text[start] == '\n':
            self.skip_document(self.document)

    def redirection(self, command: _Command) -> None:
        if command.start is not None:
            word = self.text[command.start : self.at]
            if QUOTED in word or BARE in word:
                raise _Lost
            if word.isdigit():
                command.start = None
        self.end_word(command)
        if document := self.take(_DOCUMENT):
            if self.document or len(self.stack) > 1:
                raise _Lost
            self.document = document
        elif self.take(_REDIRECTION):
            command.is_target = True
        else:
            raise _Lost

    def skip_document(self, document: re.Match[str]) -> None:
        """Read the lines of a here-document, to the line that is its word."""
        tabs, *words = document.groups()
        word = words[0] or words[1] or words[2]
        self.document = None
        while self.at < len(self.text):
            end = self.text.find('\n', self.at)
            end = end if end >= 0 else len(self.text)
            line = self.text[self.at : end]
            if _MAYBE_WORD.fullmatch(line) or (words[2] and _LIVE.search(line)):
                raise _Lost
            start, self.at = self.at, end + 1
            self.judge(start, 'it is in a here-document')
            if word == (line.lstrip('\t') if tabs else line):
                return

    def end_word(self, command: _Command, end: int | None = None) -> None:
        """Judge the places in a word that ends, and add it to its command."""
        if command.start is None:
            return
        start, end = command.start, self.at if end is None else end
        word = self.text[start:end]
        if QUOTED in word:
            self.judge(start, self.why_not(command, start, end))
        command.start = None
        if command.is_target:
            command.is_target = False
        elif command.words or not (_ASSIGNMENT.match(word) or word in _RESERVED):
            # Text of an owner could make a word of the shell.
            unknown = _CHANGING.fullmatch(word) or (BARE in word and '/' not in word)
            if unknown and not command.words:
                raise _Lost
            command.words.append(word)

    def why_not(self, command: _Command, start: int, end: int) -> str:
        """Return why the word is not a place for a value; empty if it is."""
        word, words = self.text[start:end], command.words
        if len(self.stack) > 1:
            return 'it is within parentheses'
        if self.document or command.is_target:
            return 'it is beside a redirection'
        if words in ([], ['export']) and self.text[end - 2 : end] == '=' + QUOTED:
            line = _LINE.match(self.text, self.text.rfind('\n', 0, start) + 1)
            if line is None or line.end() != end:
                return 'the assignment is not on a line of its own'
            return f'the shell itself reads {line[1]}' if _OF_SHELL.fullmatch(line[1]) else ''
        if not words or not _COMMAND.fullmatch(words[0]) or _READING.fullmatch(words[0]):
            return 'no command that is known to take any text comes before it'
        if words[0] == 'printf' and not _FORMAT.match(words[1] if words[1:] else ''):
            return 'printf could take it for an option'
        return '' if _ARGUMENT.fullmatch(word) else 'the word has more than letters beside it'


# The templates of a driver are the same each time that it is opened.
@functools.lru_cache(maxsize=64)
def shell_refusals(text: str) -> tuple[str, ...]:
    """Return for each quoted value of a masked script why it is refused; empty if it is not."""
    return tuple(_Scanner(text).refusals())
