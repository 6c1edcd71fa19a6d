"""Behaviours of secrets: neither people nor programs can read one where it does not belong."""

from __future__ import annotations

import base64
import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.values import join_token
from kiln.exceptions import KilnError
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.clusters.road.machines import AWAY, REFUSING, Machine

#: The start of a private key.
_KEY = b'PRIVATE KEY-----'
#: Names of parameters with credentials; a public key does not count.
_CREDENTIAL = re.compile(
    r'(?:^|_)(?:password|passwd|passphrase|secret|token|credentials?|(?<!public_)(?<!ssh_)key)$'
)
#: Secrets that few templates and commands can take as they are.
AWKWARD = tuple(f'{samples.SECRET}{more}' for more in ('', ' \'"`$(x)\n', '\x00', ' \u20ac{{ }}'))


class Disclosure(JourneyFixture):
    """Secrets."""

    def test_nothing_that_is_shown_has_a_secret(self) -> None:
        journey = self.whole_journey()
        self._none_in(journey.shown, {samples.SECRET, *journey.tokens})

    def test_no_answer_about_a_node_has_a_secret(self) -> None:
        opened = self.nodes_driver()
        of = self.of_whole(self.a_whole(opened, **samples.secrets_of(opened)))
        tokens = {join_token(of['context'], node) for node in of['context'].nodes}
        node = of['context'].nodes[-1]
        machines: list[Machine] = [
            *AWAY.values(),
            *(one for one in (self.ready_machine, self.serving_machine) if one is not None),
        ]
        for machine in machines:
            for name in ('is_ready', 'drain'):
                with self.network.playing(machine):
                    told = _told(functools.partial(getattr(opened, name), **of, node=node))
                self._none_in([(f'the answer of {name}', told)], {samples.SECRET, *tokens})

    def test_no_error_quotes_a_secret(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened, **samples.secrets_of(opened))
        of = self.of_whole(cluster)
        node = of['context'].nodes[-1]
        plan = samples.creation(cluster)
        for secret in AWKWARD:
            context = dataclasses.replace(of['context'], secrets=samples.Secret(secret))
            call = {'context': context, 'cluster': cluster}
            bootstrap = functools.partial(opened.bootstrap, **call, node=node)
            validate = functools.partial(opened.validate, **call, plan=plan)
            with self.network.playing(REFUSING):
                told = [
                    ('an error of bootstrap', _error(bootstrap)),
                    ('a problem', _told(validate)),
                ]
            self._none_in(told, {samples.SECRET})

    def test_a_file_with_a_secret_is_not_for_everybody(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened, **samples.secrets_of(opened))
        for node in samples.nodes_of(cluster):
            token = join_token(self.of_whole(cluster)['context'], node)
            secret = [one.encode() for form in (samples.SECRET, token) for one in _forms(form)]
            for file in self.given_to(opened, cluster, node).files:
                if any(one in file.content for one in (*secret, _KEY)):
                    self.assertFalse(
                        file.mode & 0o007,
                        f'Every user of a machine can read the secret in {file.path}: its mode '
                        f'is {file.mode:04o}.',
                    )

    def test_what_is_called_like_a_credential_is_a_secret(self) -> None:
        parameters = self.nodes_driver().template_definition.parameters
        found = [
            name for name, one in parameters.items()
            if _CREDENTIAL.search(name) and one.type is ParameterType.STRING
            and not one.source and not one.secret
        ]  # fmt: skip
        self.assertEqual(
            [], found,
            'Their values are stored and shown: declare them secret, or find a name for them '
            'that no credential has.',
        )  # fmt: skip

    def _none_in(self, shown: Iterable[tuple[str, str]], secrets: set[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        found = {where for where, text in shown if any(form in text for form in forms)}
        self.assertEqual(set(), found, 'There a secret can be read.')


def _told(call: Callable[[], Any]) -> str:
    """Return the answer of a call as text, or its error."""
    try:
        return repr(call())
    except KilnError as exc:
        return str(exc)


def _error(call: Callable[[], Any]) -> str:
    try:
        call()
    # Also an error that is a mistake is shown to users.
    except Exception as exc:
        return str(exc)
    return ''


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and in the codes that text is written in."""
    data = secret.encode()
    yield from (secret, data.hex(), urllib.parse.quote(secret))
    # The last characters depend on what follows.
    yield base64.b64encode(data).decode().rstrip('=')[:-1]
