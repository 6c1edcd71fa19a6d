"""Mistakes in cluster drivers: wrong about time, about the node that is meant, or in repeats."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kiln.testing.mutants.code import Code, Edit

_MODULE = "__import__('kiln.cluster_drivers.values', fromlist=['*'])"
_SLEEP = "__import__('time').sleep(10)"
_PLACES = (
    "str(__import__('os').getpid())",
    "__import__('os').getcwd()",
    "str(__import__('time').time())",
)
_LOG = "__import__('logging').getLogger(__name__).warning"
#: Members that authors take for each other.
_CONFUSED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        'Progress': {
            'IN_PROGRESS': 'COMPLETE',
            'COMPLETE': 'IN_PROGRESS',
            'FAILED': 'UNKNOWN',
            'UNKNOWN': 'FAILED',
        },
        'NodeState': {
            'READY': 'JOINING',
            'JOINING': 'READY',
            'UNHEALTHY': 'FAILED',
            'DRAINING': 'DELETING',
            'DELETING': 'DRAINING',
            'GONE': 'UNKNOWN',
            'FAILED': 'UNHEALTHY',
        },
    }
)
#: Attributes that are mixed up, by the variables that have them.
_IDENTITIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        'cluster': {'id': 'name', 'name': 'id'},
        'node': {'id': 'cluster_id', 'name': 'group', 'created_at': 'since', 'address': 'name'},
        'one': {'id': 'cluster_id', 'created_at': 'since', 'doomed': 'name'},
    }
)
#: What the engine calls once for a node or a cluster, and again after a crash.
_ANSWERS = frozenset({'bootstrap', 'is_ready', 'drain', 'update_cluster_status', 'pull', 'order'})
_CALLS = frozenset({*_ANSWERS, 'validate', 'tend', 'create_cluster', 'delete_cluster'})


def too_early(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Report a node that is not ready as ready, or one that still has work as drained."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id='Readiness'), attr='not_yet')):
            yield code.replace(node, f'{_MODULE}.READY')
        case ast.Call(func=ast.Attribute(value=ast.Name(id='Readiness'), attr='failed')):
            yield code.replace(node.func, 'Readiness.not_yet')
        case ast.Call(func=ast.Name(id='Drained')):
            yield code.replace(node, f'{_MODULE}.DRAINED')


def too_late(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Never report a node as ready, or as drained."""
    if isinstance(node, ast.Name) and not isinstance(code.parent(node), ast.Call):
        match node.id:
            case 'READY':
                yield code.replace(node, f"{_MODULE}.Readiness.not_yet('it boots')")
            case 'DRAINED':
                yield code.replace(node, f"{_MODULE}.Drained(False, 'it has work')")


def log_secret(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Write a secret or a token into the log."""
    if isinstance(node, ast.Assign) and any(map(_is_secret, ast.walk(node.value))):
        edit = code.insert_after(node, f'{_LOG}({code.segment(node.targets[0])})')
        yield from filter(None, [edit])


def wrong_progress(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Take a similar progress, or a similar state of a node, for the right one."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=member) if name in _CONFUSED:
            if wrong := _CONFUSED[name].get(member):
                yield code.replace(node, f'{name}.{wrong}')


def wrong_identity(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Mix up what identifies a cluster or a node: its id, its name, its age, its group."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=field) if name in _IDENTITIES:
            if wrong := _IDENTITIES[name].get(field):
                yield code.replace(node, f'{name}.{wrong}')


def wait_inside(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Wait inside of a call that must return at once."""
    if isinstance(node, ast.FunctionDef) and node.name in _CALLS:
        edit = code.insert_before(_first(node), _SLEEP)
        yield from filter(None, [edit])


def keep_first_answer(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Give the first answer to every later question, also about other nodes and clusters."""
    if isinstance(node, ast.FunctionDef) and node.name in _ANSWERS:
        kept = 'lambda *a, kept={}, **k: kept["it"] if kept else kept.setdefault("it", f(*a, **k))'
        wrapped = f'__import__("functools").wraps(f)({kept})'
        yield from filter(None, [code.insert_before(node, f'@(lambda f: {wrapped})')])


def depend_on_process(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Let a text depend on the process, its working directory or the time."""
    if isinstance(node, ast.JoinedStr) and not any(map(_for_people, code.around(node))):
        for place in _PLACES:
            yield code.replace(node, f'({code.segment(node)} + {place})')


def flip_flag(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Take True for False, or False for True."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield code.replace(node, str(not node.value))


def _first(function: ast.FunctionDef) -> ast.stmt:
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    return function.body[1] if documented else function.body[0]


def _for_people(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.keyword(arg='reason' | 'message' | 'help'):
            return True
        case ast.Call(func=ast.Attribute(attr='not_yet' | 'failed')):
            return True
    return False


def _is_secret(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr='secrets'), attr='get')):
            return True
        case ast.Call(func=ast.Name(id='join_token')):
            return True
    return False
