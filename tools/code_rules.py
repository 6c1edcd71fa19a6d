"""Rules of security for the code of kiln that ruff's do not have.

``python -m tools.code_rules [PATH ...]`` prints each breach with its rule, and fails if it finds
one. Clients of the network are listed by a test, tests/unit/foreign/test_clients.py.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
import sys
from collections.abc import Iterator

#: The folder searched by default, and the part of it that talks to processes of its own.
PLACE = 'kiln'
KIT = 'kiln/testing/'
OBJECTS = frozenset(('dill', 'marshal', 'pickle', 'shelve'))
UNVERIFIED = frozenset(('CERT_NONE', 'CERT_OPTIONAL', '_create_unverified_context'))
PROGRAMS = frozenset(('Popen', 'call', 'check_call', 'check_output', 'run'))
YAML = frozenset(('full_load', 'load', 'load_all', 'safe_load', 'safe_load_all', 'unsafe_load'))
#: Files that are excused from a rule, and why.
EXCUSED = {
    ('tls', 'kiln/wrappers/watcher/probe.py'): 'it sends nothing, and reads a status alone',
    ('yaml', 'kiln/cluster_drivers/discovery/manifest.py'): 'the author of a driver is trusted',
    ('yaml', 'kiln/testing/clusters/cloud_config.py'): 'it reads what a driver wrote, as '
    'cloud-init would',
    ('session', 'kiln/openstack/session.py'): 'a site can set its proxies so; '
    'a configured authority is a path, which no variable replaces',
}
_NOQA = re.compile(r'#\s*noqa:(?P<rules>[A-Z0-9, ]*\bS\d{3}\b[A-Z0-9, ]*)[-# ]*(?P<why>.*)')


class Rules(ast.NodeVisitor):
    """Collects the breaches in one module, as lines and texts."""

    def __init__(self, path: str) -> None:
        self.found: list[tuple[int, str]] = []
        self._path = path
        self._insecure = 0

    def _breach(self, rule: str, node: ast.AST, text: str) -> None:
        if (rule, self._path) not in EXCUSED:
            self.found.append((getattr(node, 'lineno', 1), f'{rule}: {text}'))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._check_import(node, node.module or '')
        for alias in node.names:
            if node.module == 'ssl' and alias.name in UNVERIFIED:
                self._unverified(node)
            if node.module == 'subprocess' and alias.name in PROGRAMS:
                self._breach('environment', node, 'import the module, so that its calls are seen')
            if node.module == 'yaml' and alias.name in YAML:
                self._breach('yaml', node, 'read it with kiln.yaml_schema')

    def _check_import(self, node: ast.AST, module: str) -> None:
        if module.partition('.')[0] in OBJECTS and not self._path.startswith(KIT):
            self._breach('objects', node, 'such bytes run code as they are read; use JSON')

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        decided = _named(node.test, 'insecure')
        self._insecure += decided
        for one in node.body:
            self.visit(one)
        self._insecure -= decided
        for one in node.orelse:
            self.visit(one)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in UNVERIFIED:
            self._unverified(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            name = getattr(target, 'attr', '')
            if name in ('check_hostname', 'verify') and _is_false(node.value):
                self._unverified(node)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(ast.unparse(base) == 'requests.Session' for base in node.bases):
            self._check_session(node, node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == 'requests.Session':
                self._check_session(call, node)
        self.generic_visit(node)

    def _check_session(self, at: ast.AST, within: ast.AST) -> None:
        if not any(
            isinstance(one, ast.Assign)
            and _is_false(one.value)
            and any(getattr(target, 'attr', '') == 'trust_env' for target in one.targets)
            for one in ast.walk(within)
        ):
            self._breach('session', at, 'set trust_env to False: REQUESTS_CA_BUNDLE would count')

    def visit_Call(self, node: ast.Call) -> None:
        module, _, name = ast.unparse(node.func).rpartition('.')
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if module == 'subprocess' and name in PROGRAMS and not _is_given(given.get('env')):
            self._breach('environment', node, 'give env: that of kiln can hold secrets')
        if module == 'yaml' and name in YAML:
            self._breach('yaml', node, 'read it with kiln.yaml_schema: size and depth are bounded')
        if module == 'requests' and name in ('delete', 'get', 'head', 'post', 'put', 'request'):
            self._breach('session', node, 'use a session of kiln')
        if any(
            _is_false(given.get(one)) for one in ('verify', 'check_hostname', 'assert_hostname')
        ):
            self._unverified(node)
        self.generic_visit(node)

    def _unverified(self, node: ast.AST) -> None:
        if not self._insecure:
            self._breach('tls', node, 'only an option named insecure can turn verification off')


def _named(test: ast.expr, name: str) -> bool:
    """Return True if a condition is a variable or an attribute of that name."""
    return getattr(test, 'id', getattr(test, 'attr', None)) == name


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_given(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def breaches(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text for each breach in a file."""
    source = path.read_text(encoding='utf-8')
    rules = Rules(path.as_posix())
    rules.visit(ast.parse(source))
    yield from sorted(rules.found)
    for number, line in enumerate(source.splitlines(), 1):
        excused = _NOQA.search(line)
        if excused and not excused['why']:
            yield number, 'noqa: say why the rule of security does not hold here'


def main(arguments: list[str] | None = None) -> int:
    """Print the breaches; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog='python -m tools.code_rules', description=__doc__)
    parser.add_argument('place', nargs='*', default=[PLACE])
    found = 0
    for place in map(pathlib.Path, parser.parse_args(arguments).place):
        for path in sorted(place.rglob('*.py')) if place.is_dir() else [place]:
            for number, text in breaches(path):
                found += 1
                print(f'{path}:{number}: {text}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
