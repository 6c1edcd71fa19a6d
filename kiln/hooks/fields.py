"""Schema of hooks.yaml."""

from __future__ import annotations

import dataclasses
import urllib.parse

from kiln.clusters.models import OperationKind
from kiln.hooks.hook import DRIVER, NAME, Executable, Hook, HookOptions, Target, Webhook
from kiln.hooks.points import OnDeadline, OnFailure, Point
from kiln.yaml_schema.container_checks import ListOf
from kiln.yaml_schema.mapping_checks import Field, Found, Record
from kiln.yaml_schema.nodes import shown
from kiln.yaml_schema.value_checks import Choice, Duration, Text, Whole

_LONGEST_S = 86_400
_LOOPBACK = ('127.0.0.1', '::1', 'localhost')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared(HookOptions):
    """One hook as declared in hooks.yaml."""

    exec: tuple[str, ...] = ()
    url: str = ''
    secret_file: str | None = None
    ca_file: str | None = None

    def hook(self, origin: str) -> Hook:
        """Return the hook that this declares."""
        target: Target = Executable(self.exec)
        if self.url:
            target = Webhook(self.url, self.secret_file, self.ca_file)
        options = {one.name: getattr(self, one.name) for one in dataclasses.fields(HookOptions)}
        return Hook(**options, target=target, origin=origin)


def url_mistake(url: str) -> str:
    """Return what is wrong with the URL of a webhook; empty if it is valid."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as exc:
        return f'this is not a URL: {exc}'
    if '@' in parts.netloc:
        # The password would be shown, logged and stored.
        return 'the URL contains a user or password; remove it and write a secret_file'
    if not host or parts.scheme not in ('https', 'http') or parts.fragment:
        return f'{shown(url)} is not a webhook URL; write a URL that begins with https://'
    if parts.scheme == 'http' and host not in _LOOPBACK:
        return 'http can be read and changed in transit; write https'
    return ''


def _settle(found: Found) -> None:
    ways = [name for name in ('exec', 'url') if found.given(name)]
    if len(ways) != 1:
        again = 'remove one of them' if ways else 'write one of them'
        found.mistakes.add(found.node, f'a hook has either exec or url; {again}')
    for name in ('secret_file', 'ca_file'):
        if found.given(name) and 'url' not in ways:
            found.mistakes.add(found.at(name), f'{name} needs a url; remove it')
    if 'name' in found.values and 'point' in found.values:
        values = {HOOK.fields[name].attribute: value for name, value in found.values.items()}
        for field, message in Declared(**values).hook('').contradictions():
            found.mistakes.add(found.at(field), message)


def _name_mistake(name: str) -> str:
    reserved = f'{DRIVER} is reserved for the cluster driver; write another name'
    return reserved if name == DRIVER else ''


_NAME = Text(
    'a name of lowercase letters, digits, dots, dashes and underscores',
    longest=63,
    pattern=NAME.pattern,
    wrong=_name_mistake,
)
_URL = Text('a URL that begins with https://', longest=2000, wrong=url_mistake)
_PATH = Text('an absolute path', longest=4096, pattern=r'/\S*')

HOOK = Record(
    Declared,
    'a hook',
    Field(name='name', kind=_NAME, required=True, help='Name, unique at its point.'),
    Field(name='point', kind=Choice(Point), required=True, help='When the hook is called.'),
    Field(
        name='exec', kind=ListOf(Text('text', longest=4096), 'a list of a program and its '
        'arguments', least=1, unique=False),
        help='The absolute path of the program, and its arguments.',
        also=('command', 'executable', 'run'),
    ),
    Field(
        name='url', kind=_URL, help='The URL to which the payload is posted.', also=('webhook',)
    ),
    Field(
        name='secret_file', kind=_PATH,
        help='File with the secret that signs requests; readable by its owner only.',
        also=('secret',),
    ),
    Field(
        name='ca_file', kind=_PATH,
        help='CA certificates to trust instead of those of the system.',
    ),
    Field(
        name='order', kind=Whole(0, 999),
        help='Lower is called earlier at pre_ points, and later at post_ points.',
    ),
    Field(
        name='timeout', into='timeout_s', kind=Duration(1, 3600),
        help='Time limit of one call; then a program is killed and the call fails.',
    ),
    Field(
        name='deadline', into='deadline_s', kind=Duration(1, _LONGEST_S),
        help='Time limit of all calls together, from the first; then on_deadline applies.',
    ),
    Field(name='on_failure', kind=Choice(OnFailure), help='What happens when a call fails.'),
    Field(
        name='on_deadline', kind=Choice(OnDeadline),
        help='What happens at the deadline, or when the retries are used up.',
    ),
    Field(
        name='retries', kind=Whole(0, 1000),
        help='Number of calls after the first failed call; if omitted, limited by the '
        'deadline only.',
    ),
    Field(
        name='backoff', into='backoff_s', kind=Duration(1, 300),
        help='Time until the first retry; doubled for each further retry.',
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
