"""Hook loading from a directory, hooks.yaml and packages, with all mistakes."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

from kiln.clusters.exceptions import InvalidCluster, InvalidHooks, Problem
from kiln.hooks.fields import HOOK, Declared
from kiln.hooks.hook import DRIVER, NAME, Executable, Hook
from kiln.hooks.points import Point
from kiln.plugins.foreign_files import unsafe_because
from kiln.programs.accounts import Account, AccountError, account_of
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Node, described, shown
from kiln.yaml_schema.value_checks import Wrong

#: File name of an executable in the directory of a point.
_NUMBERED = re.compile(r'(?P<order>[0-9]{1,3})-(?P<name>.+)')


def load_hooks(
    *,
    directory: Path | None = None,
    file: Path | None = None,
    entries: Iterable[EntryPoint] = (),
    user: str | None = None,
) -> tuple[Hook, ...]:
    """Return all hooks of a site.

    :param directory: contains a directory for each point, with executables ``NN-name``.
    :param file: the path of a hooks.yaml.
    :param entries: entry points of installed packages.
    :param user: the name of the user that programs run as; None is the user of kiln.
    :raises InvalidHooks: at least one hook is invalid; no hook is loaded.
    """
    problems: list[Problem] = []
    found = [
        *(_of_directory(directory, problems) if directory else ()),
        *(_of_file(file, problems) if file else ()),
        *(hook for entry in entries for hook in _of_entry(entry, problems)),
    ]
    seen: dict[tuple[Point, str], Hook] = {}
    for hook in found:
        first = seen.setdefault((hook.point, hook.name), hook)
        if first is not hook:
            both = f'{first.origin} and {hook.origin}'
            message = f'hook {hook} is declared twice: {both}; rename one of them'
            problems.append(Problem(message=message))
    account = _account(user, problems) if user else None
    if problems:
        raise InvalidHooks(problems)
    if account:
        found = [_run_as(account, hook) for hook in found]
    places = {point: place for place, point in enumerate(Point)}
    return tuple(sorted(found, key=lambda one: (places[one.point], one.order, one.name)))


def _account(user: str, problems: list[Problem]) -> Account | None:
    try:
        return account_of(user, what='hooks')
    except AccountError as exc:
        problems.append(Problem(message=f'[hooks] user: {exc}'))
        return None


def _run_as(account: Account, hook: Hook) -> Hook:
    if not isinstance(hook.target, Executable):
        return hook
    return dataclasses.replace(hook, target=dataclasses.replace(hook.target, account=account))


# ---- a directory -------------------------------------------------------------


def _of_directory(directory: Path, problems: list[Problem]) -> Iterator[Hook]:
    for folder in _listed(directory, problems):
        try:
            point = Point(folder.name)
        except ValueError:
            points = ', '.join(Point)
            problems.append(_about(folder, f'there is no such point; use one of {points}'))
            continue
        for path in _listed(folder, problems):
            hook = _of_executable(path, point, problems)
            if hook is not None:
                yield hook


def _listed(directory: Path, problems: list[Problem]) -> list[Path]:
    try:
        # Skip backup and temporary files of editors and package tools.
        return sorted(path for path in directory.iterdir() if not re.search(r'^\.|~$', path.name))
    except OSError as exc:
        problems.append(_about(directory, f'it cannot be read as a directory: {exc.strerror}'))
        return []


def _of_executable(path: Path, point: Point, problems: list[Problem]) -> Hook | None:
    found = _NUMBERED.fullmatch(path.stem)
    if found is None or not NAME.fullmatch(found['name']) or found['name'] == DRIVER:
        example = f'{path.parent / "50-notify"}'
        problems.append(_about(path, f'its name is not NN-name; rename it like {example}'))
        return None
    if why := _unfit(path):
        problems.append(_about(path, why))
        return None
    return Hook(
        name=found['name'],
        point=point,
        target=Executable((str(path.absolute()),)),
        order=int(found['order']),
        origin=str(path),
    )


def _unfit(path: Path) -> str:
    """Return why a file cannot be run as a hook; empty if it can."""
    try:
        mode, unsafe = path.stat().st_mode, unsafe_because(path)
    except OSError as exc:
        return f'it cannot be run: {exc.strerror}'
    if not stat.S_ISREG(mode):
        return 'it is not a regular file'
    if not os.access(path, os.X_OK):
        return 'it is not executable; chmod +x it'
    return unsafe


# ---- a file --------------------------------------------------------------------


def _of_file(file: Path, problems: list[Problem]) -> list[Hook]:
    # Imported here: only sites with such a file need PyYAML.
    from kiln.yaml_schema.reader import only_document

    mistakes = Mistakes(str(file))
    root = only_document(file, mistakes)
    hooks = [] if root is None else list(_of_document(root, mistakes))
    try:
        mistakes.raise_any()
    except InvalidCluster as exc:
        problems.extend(exc.problems)
    return hooks


def _of_document(root: Node, mistakes: Mistakes) -> Iterator[Hook]:
    for name, pair in root.entries.items():
        if name != 'hooks':
            mistakes.add(pair.key, f'unknown key {shown(name)}; write hooks')
    if 'hooks' not in root.entries:
        mistakes.add(root, f'{described(root)}; begin it with hooks:')
        return
    listed = root.entries['hooks'].value
    if not isinstance(listed.value, tuple):
        mistakes.add(listed, f'{described(listed)}; write a list of hooks')
        return
    for node in listed.value:
        declared = HOOK.read(node, mistakes)
        if not isinstance(declared, Wrong):
            _check_files(declared, node, mistakes)
            yield declared.hook(f'{mistakes.file}:{node.line}')


def _check_files(declared: Declared, node: Node, mistakes: Mistakes) -> None:
    if declared.exec:
        words = node.entries['exec'].value.value
        assert isinstance(words, tuple)
        program = Path(declared.exec[0])
        if not program.is_absolute():
            mistakes.add(words[0], f'{shown(str(program))} is relative; write an absolute path')
        elif why := _unfit(program):
            mistakes.add(words[0], f'{program}: {why}')
    for name in ('secret_file', 'ca_file'):
        path = getattr(declared, name)
        if path is None:
            continue
        at = node.entries[name].value
        try:
            unsafe = unsafe_because(Path(path), private=name == 'secret_file')
        except OSError as exc:
            mistakes.add(at, f'it cannot be read: {exc.strerror}')
            continue
        if unsafe:
            mistakes.add(at, unsafe)


# ---- packages --------------------------------------------------------------------


def _of_entry(entry: EntryPoint, problems: list[Problem]) -> Iterator[Hook]:
    origin = f'package {entry.dist.name}' if entry.dist else f'module {entry.module}'
    what = f'hook {entry.name} of {origin}'
    try:
        found = entry.load()
    # Code of a third party can raise anything.
    except Exception as exc:
        problems.append(Problem(message=f'{what} cannot be loaded: {exc}'))
        return
    if not isinstance(found, Hook):
        problems.append(
            Problem(
                message=f'{what} is {found!r}, not a hook; use kiln.hooks.callers.plugins.hook'
            )
        )
        return
    hook = dataclasses.replace(found, name=entry.name, origin=origin)
    if not NAME.fullmatch(hook.name) or hook.name == DRIVER:
        problems.append(Problem(message=f'{what} has an invalid name; rename its entry point'))
        return
    wrong = [f'{field}: {message}' for field, message in hook.contradictions()]
    problems += [Problem(message=f'{what}: {one}') for one in wrong]
    if not wrong:
        yield hook


def _about(path: Path, message: str) -> Problem:
    return Problem(message=message, path=str(path))
