"""What may be written in a hooks.yaml: every key, once."""

from __future__ import annotations

import dataclasses
import urllib.parse

from kiln.cluster_file.containers import ListOf
from kiln.cluster_file.kinds import Choice, Duration, Text, Whole, Wrong
from kiln.cluster_file.mistakes import Mistakes
from kiln.cluster_file.record import Field, Found, Record
from kiln.cluster_file.tree import Node, shown
from kiln.cluster_models import OperationKind
from kiln.hooks.hook import DRIVER, MIDDLE, NAME, Executable, Hook, Target, Webhook
from kiln.hooks.points import OnDeadline, OnFailure, Point

_LONGEST_S = 86_400
_LOOPBACK = ('127.0.0.1', '::1', 'localhost')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """One hook as a file says it."""

    name: str
    point: Point
    exec: tuple[str, ...] = ()
    url: str = ''
    secret_file: str | None = None
    ca_file: str | None = None
    order: int = MIDDLE
    timeout_s: float = 30.0
    deadline_s: float = 600.0
    on_failure: OnFailure | None = None
    on_deadline: OnDeadline | None = None
    retries: int | None = None
    backoff_s: float = 5.0
    clusters: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    kinds: tuple[OperationKind, ...] = ()

    def hook(self, origin: str) -> Hook:
        """Return the hook that it is."""
        target: Target = Executable(self.exec)
        if self.url:
            target = Webhook(self.url, self.secret_file, self.ca_file)
        alike = {field.name for field in dataclasses.fields(Hook)} - {'target', 'origin'}
        said = {name: getattr(self, name) for name in alike}
        return Hook(**said, target=target, origin=origin)


class _Name(Text):
    """The name of a hook."""

    def __init__(self) -> None:
        words = 'a name of small letters, digits, dots, dashes and underscores'
        super().__init__(words, longest=63, pattern=NAME.pattern)

    def _read(self, node: Node, mistakes: Mistakes) -> str | Wrong:
        if node.value == DRIVER:
            mistakes.add(node, f'{DRIVER} is what the cluster driver does; write another name')
        return super()._read(node, mistakes)


class _Url(Text):
    """Where a webhook is."""

    def __init__(self) -> None:
        super().__init__('a URL that begins with https://', longest=2000)

    def _read(self, node: Node, mistakes: Mistakes) -> str | Wrong:
        url = super()._read(node, mistakes)
        if isinstance(url, str) and (why := url_mistake(url)):
            mistakes.add(node, why)
        return url


def url_mistake(url: str) -> str:
    """Return what is wrong with the URL of a webhook; nothing if all is right."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as exc:
        return f'this is no URL: {exc}'
    if '@' in parts.netloc:
        # It would be shown, logged, and kept.
        return 'the URL has a user or password in it; write a secret_file'
    if not host or parts.scheme not in ('https', 'http') or parts.fragment:
        return f'{shown(url)} is none; write a URL that begins with https://'
    if parts.scheme == 'http' and host not in _LOOPBACK:
        return 'what is sent over http can be read and changed on its way; write https'
    return ''


def _settle(found: Found) -> None:
    ways = [name for name in ('exec', 'url') if found.given(name)]
    if len(ways) != 1:
        again = 'take one of them out' if ways else 'write one of them'
        found.mistakes.add(found.node, f'a hook is either exec or url; {again}')
    for name in ('secret_file', 'ca_file'):
        if found.given(name) and 'url' not in ways:
            found.mistakes.add(found.at(name), f'{name} is for a url; take it out')
    if 'name' in found.values and 'point' in found.values:
        values = {HOOK.fields[name].attribute: value for name, value in found.values.items()}
        for field, message in Declared(**values).hook('').contradictions():
            found.mistakes.add(found.at(field), message)


_PATH = Text('an absolute path', longest=4096, pattern=r'/\S*')

HOOK = Record(
    Declared,
    'a hook',
    Field(name='name', kind=_Name(), required=True, help='Its name; one at each point.'),
    Field(name='point', kind=Choice(Point), required=True, help='When it is called.'),
    Field(
        name='exec', kind=ListOf(Text('text', longest=4096), 'a list of a program and its '
        'arguments', least=1, unique=False),
        help='The program that is run, by its absolute path, and its arguments.',
        also=('command', 'executable', 'run'),
    ),
    Field(
        name='url', kind=_Url(), help='Where the document is posted, instead.', also=('webhook',)
    ),
    Field(
        name='secret_file', kind=_PATH,
        help='The file of the secret that posts are signed with; not for others to read.',
        also=('secret',),
    ),
    Field(
        name='ca_file', kind=_PATH,
        help='The certificates that are trusted, where the system does not know them.',
    ),
    Field(
        name='order', kind=Whole(0, 999),
        help='The lower, the earlier before something, and the later after it.',
    ),
    Field(
        name='timeout', into='timeout_s', kind=Duration(1, 3600),
        help='Time for one call. Past it a program is killed, and the call has failed.',
    ),
    Field(
        name='deadline', into='deadline_s', kind=Duration(1, _LONGEST_S),
        help='Time from the first call for all of them together; then on_deadline decides.',
    ),
    Field(name='on_failure', kind=Choice(OnFailure), help='What a failure leads to.'),
    Field(
        name='on_deadline', kind=Choice(OnDeadline),
        help='What its deadline leads to, and that its retries are used up.',
    ),
    Field(
        name='retries', kind=Whole(0, 1000),
        help='Calls after the first that failed; as many as the deadline leaves time for where '
        'it is left out.',
    ),
    Field(
        name='backoff', into='backoff_s', kind=Duration(1, 300),
        help='Time until the first retry; doubled each time.',
    ),
    Field(
        name='clusters', kind=ListOf(Text('the name of a cluster'), 'a list of names of clusters'),
        help='Only for these clusters.', also=('cluster',),
    ),
    Field(
        name='drivers', kind=ListOf(Text('the name of a driver'), 'a list of names of drivers'),
        help='Only for clusters of these drivers.', also=('driver',),
    ),
    Field(
        name='kinds', kind=ListOf(Choice(OperationKind), 'a list of kinds of operations'),
        help='Only for these kinds of operations.', also=('kind', 'operations'),
    ),
    settle=_settle,
    file='hooks',
)  # fmt: skip
