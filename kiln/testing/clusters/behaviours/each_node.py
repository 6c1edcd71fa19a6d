"""Behaviours of bootstrap data: what a node is given is its own."""

from __future__ import annotations

import base64
import dataclasses

from kiln.cluster_drivers.values import Bootstrap, join_token
from kiln.clusters.models import Node
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.same_answer import NOTHING, ORDER, BootstrapFixture

_ATTEMPTS = (1, 2)


class EachNode(BootstrapFixture):
    """Each node its own."""

    def test_what_a_node_is_given_does_not_depend_on_nodes_before_it(self) -> None:
        opened = self.nodes_driver()
        clusters = self.two_clusters(opened)
        if self.here(opened, clusters) != self.here(self.nodes_driver(), clusters):
            raise CannotBeShown('what a node is given differs in each call')
        found = self.elsewhere(clusters)
        forwards, backwards = found[NOTHING], found[ORDER]
        differs = [name for name, one in forwards.items() if one != backwards[name]]
        self.assertEqual(
            [], differs, 'These nodes are given something else if others are asked about before.'
        )

    def test_a_join_token_is_bound_to_its_node_and_attempt(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        attempts = [
            dataclasses.replace(node, attempt=attempt)
            for node in samples.nodes_of(cluster) for attempt in _ATTEMPTS
        ]  # fmt: skip
        context = self.of_whole(cluster)['context']
        tokens = {_named(one): join_token(context, one) for one in attempts}
        joins = opened.template_definition.joins
        reported: dict[str, dict[int, str]] = {}
        for one in attempts:
            given = self.given_to(opened, cluster, one)
            text = _text(given)
            found = {name for name, token in tokens.items() if token.encode() in text}
            self.assertLessEqual(
                found, {_named(one)}, f'{_named(one)} is given the token of another'
            )
            if joins:
                self.assertEqual(tokens[_named(one)], given.join_token, _named(one))
            if found or given.join_token is not None:
                token = given.join_token or tokens[_named(one)]
                reported.setdefault(one.name, {})[one.attempt] = token
        every = [token for of_node in reported.values() for token in of_node.values()]
        self.assertEqual(len(every), len(set(every)), 'Two attempts have the same token.')
        for name, of_node in reported.items():
            self.assertEqual(list(_ATTEMPTS), sorted(of_node), f'{name}: attempts with a token')

    def test_no_node_is_given_the_key_of_the_cluster(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        key = samples.JOIN_KEY
        forms = {key, key.hex().encode(), base64.b64encode(key)}
        for node in samples.nodes_of(cluster):
            text = _text(self.given_to(opened, cluster, node))
            self.assertFalse(
                any(one in text for one in forms),
                f'{node.name} is given the key from which the tokens of all nodes are derived.',
            )


def _named(node: Node) -> str:
    return f'{node.name}, attempt {node.attempt}'


def _text(given: Bootstrap) -> bytes:
    """Return all that a node is given, as bytes."""
    files = b'\n'.join(file.content for file in given.files)
    return b'\n'.join([given.user_data or b'', files, (given.join_token or '').encode()])
