"""Source code with positions, for edits that change one place and keep the rest."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Parts of a tree that no behaviour depends on, or that only tools read.
_UNSEEN = frozenset({'annotation', 'returns', 'decorator_list', 'bases', 'type_comment', 'ctx'})
#: Calls that log, or that declare types.
_LOGGERS = frozenset({'LOG', 'LOGGER', 'log', 'logger', '_LOG', '_log', '_logger'})
_TYPES = frozenset({'TypeVar', 'ParamSpec', 'NewType'})


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """A text in place of the bytes from ``start`` to ``end``."""

    start: int
    end: int
    text: str


class Text:
    """A text, and edits of it by the offsets of its bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._bytes = text.encode()

    def between(self, start: int, end: int) -> str:
        """Return the text between two offsets."""
        return self._bytes[start:end].decode()

    def apply(self, edit: Edit) -> str:
        """Return the text after an edit."""
        changed = self._bytes[: edit.start] + edit.text.encode() + self._bytes[edit.end :]
        return changed.decode()

    def line_of(self, edit: Edit) -> int:
        """Return the number of the line where an edit begins."""
        return self._bytes.count(b'\n', 0, edit.start) + 1


class Code(Text):
    """A module's source, and the places of its nodes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tree = ast.parse(text)
        self._lines = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._parents: dict[ast.AST, ast.AST] = {}
        #: The nodes that an operator can change, in the order of the source.
        self.nodes = list(self._walk(self.tree))

    # ---- places ------------------------------------------------------------

    def start(self, node: ast.AST) -> int:
        """Return the offset of the first byte of a node; of a function, of its decorators."""
        decorators = getattr(node, 'decorator_list', None)
        first: Any = decorators[0] if decorators else node
        # The sign before a decorator is not part of it.
        column: int = node.col_offset  # type: ignore[attr-defined]
        line: int = first.lineno
        return self._lines[line - 1] + column

    def end(self, node: ast.AST) -> int:
        """Return the offset behind the last byte of a node."""
        line: int = node.end_lineno  # type: ignore[attr-defined]
        column: int = node.end_col_offset  # type: ignore[attr-defined]
        return self._lines[line - 1] + column

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return self.between(self.start(node), self.end(node))

    def parent(self, node: ast.AST) -> ast.AST:
        """Return the node that contains a node; of the module, itself."""
        return self._parents.get(node, self.tree)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain a node, innermost first."""
        while (outer := self._parents.get(node)) is not None:
            yield outer
            node = outer

    def function_of(self, node: ast.AST) -> str:
        """Return the qualified name of the function or class around a node, or ''."""
        named = (*FUNCTIONS, ast.ClassDef)
        chain = (node, *self.around(node))
        names = [one.name for one in chain if isinstance(one, named)]
        return '.'.join(reversed(names))

    def is_in_function(self, node: ast.AST) -> bool:
        """Return True for a function, and for a part of one outside of classes in it."""
        scopes = (*FUNCTIONS, ast.ClassDef)
        inner = next((one for one in (node, *self.around(node)) if isinstance(one, scopes)), None)
        return isinstance(inner, FUNCTIONS)

    # ---- edits -------------------------------------------------------------

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts a text in place of a node."""
        return Edit(self.start(node), self.end(node), text)

    def drop(self, parts: Sequence[tuple[int, int]], index: int) -> Edit:
        """Return the edit that removes one of several parts, and its comma."""
        start, end = parts[index]
        if index + 1 < len(parts):
            return Edit(start, parts[index + 1][0], '')
        if index:
            return Edit(parts[index - 1][1], end, '')
        # A comma may follow the only part.
        rest = self._bytes[end:]
        blank = len(rest) - len(rest.lstrip())
        return Edit(start, end + blank + 1 if rest[blank : blank + 1] == b',' else end, '')

    def insert_before(self, statement: ast.stmt, text: str) -> Edit | None:
        """Return the edit that inserts a line; None where no line begins with the statement."""
        at = self.start(statement)
        line = self._bytes.rfind(b'\n', 0, at) + 1
        indent = self.between(line, at)
        return None if indent.strip() else Edit(line, line, f'{indent}{text}\n')

    def insert_after(self, statement: ast.stmt, text: str) -> Edit | None:
        """Return the edit that appends a line to the block that a statement ends."""
        at = self.start(statement)
        indent = self.between(self._bytes.rfind(b'\n', 0, at) + 1, at)
        if indent.strip():
            return None
        end = self._bytes.find(b'\n', self.end(statement))
        end = len(self._bytes) if end < 0 else end
        return Edit(end, end, f'\n{indent}{text}')

    # ---- the walk ----------------------------------------------------------

    def _walk(self, node: ast.AST) -> Iterator[ast.AST]:
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for child in children if name not in _UNSEEN else ():
                if isinstance(child, ast.AST):
                    self._parents[child] = node
                    if not _is_unseen(child):
                        yield child
                        # Text for people; and Python 3.11 has no positions in it.
                        if not isinstance(child, ast.JoinedStr):
                            yield from self._walk(child)


def _is_unseen(node: ast.AST) -> bool:
    """Return True for documentation, logging and what only type checkers read."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id='TYPE_CHECKING')):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGERS
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            return name in _TYPES
        case ast.Assign(targets=[ast.Name(id='__all__')]):
            return True
        case ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
    return False
