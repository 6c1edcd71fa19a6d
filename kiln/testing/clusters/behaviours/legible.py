"""Behaviours of files: the programs of a node can read them, whatever the values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.languages import Leaf, Malformed, leaves_of

#: A word that stands for a value; files with other values are compared with the ones with it.
WORD = 'kitword5c1'
#: Texts that are taken for something else without quotes, or that have quotes.
TEXTS = ('no', '007', 'null', '1e3', 'kit "quotes" it\'s $(x) \\ # {{ x }} \u20ac')
USER_DATA = 'user data'
Parts = Mapping[str, tuple[Leaf, ...]]


class Legible(ClusterFixture):
    """What nodes can read."""

    def test_each_file_is_well_formed(self) -> None:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened, **samples.secrets_of(opened))
        for node in samples.nodes_of(cluster):
            self._parts(opened, cluster, node)

    def test_user_data_from_a_script_names_its_interpreter(self) -> None:
        opened = self.nodes_driver()
        name = opened.template_definition.user_data or ''
        cluster = self.a_whole(opened)
        given = self.given_to(opened, cluster, samples.nodes_of(cluster)[-1])
        if name.endswith(('.sh', '.bash', '.py')) and given.user_data is not None:
            self.assertEqual(b'#!', given.user_data[:2], 'No machine runs a script without it.')

    def test_a_text_reaches_the_files_as_it_is(self) -> None:
        opened = self.nodes_driver()
        for name, one in opened.template_definition.parameters.items():
            if _is_free(one):
                for text in TEXTS:
                    self._reaches(opened, f'parameter {name}', {name: WORD}, {name: text})

    def test_a_secret_reaches_the_files_whatever_its_characters(self) -> None:
        opened = self.nodes_driver()
        names = samples.secrets_of(opened)
        if not names:
            return
        cluster = self.a_whole(opened, **names)
        for text in TEXTS:
            self._compared(opened, 'a secret', cluster, cluster, text, secret=True)

    # ---- comparisons ---------------------------------------------------------------

    def _reaches(
        self,
        opened: NodeClusterDriver,
        what: str,
        word: Mapping[str, str],
        text: Mapping[str, str],
    ) -> None:
        more = samples.secrets_of(opened)
        usual, other = (self.a_whole(opened, **{**more, **one}) for one in (word, text))
        for one in (usual, other):
            if list(opened.validate(**self.of_whole(one), plan=samples.creation(one))):
                return  # the driver takes no such text
        self._compared(opened, what, usual, other, *text.values())

    def _compared(
        self,
        opened: NodeClusterDriver,
        what: str,
        usual: Cluster,
        other: Cluster,
        text: str,
        *,
        secret: bool = False,
    ) -> None:
        """Compare the files of a node with a word, and with a text in place of it."""
        node = samples.nodes_of(usual)[-1]
        stores = (samples.Secret(WORD), samples.Secret(text)) if secret else (None, None)
        found = [
            self._parts(opened, cluster, node, what, store)
            for cluster, store in zip((usual, other), stores, strict=True)
        ]
        for name, leaves in found[0].items():
            seen = found[1].get(name, ())
            expected = [one._replace(text=one.text.replace(WORD, text)) for one in leaves]
            same = [one.kind for one in expected] == [one.kind for one in seen]
            # Another value can follow from it, such as a digest.
            wrong = [
                one.kind
                for one, was, now in zip(expected, leaves, seen, strict=False)
                if WORD in was.text and one.text != now.text
            ]
            self.assertTrue(
                same and not wrong,
                f'{what} does not reach {name} as it is: without quotes, some texts are numbers, '
                f'or change what is around them; use a filter.',
            )

    def _parts(
        self,
        opened: NodeClusterDriver,
        cluster: Cluster,
        node: Node,
        what: str = 'the usual values',
        store: samples.Secret | None = None,
    ) -> Parts:
        of = self.of_whole(cluster)
        if store is not None:
            of['context'] = dataclasses.replace(of['context'], secrets=store)
        with self.network.playing():
            try:
                given = opened.bootstrap(**of, node=node)
            except ClusterDriverError as exc:
                self.fail(f'{node.name} is given nothing, for {what}: {exc.reason}')
        found = {}
        for name, content in contents_of(given, opened.template_definition.user_data or ''):
            try:
                found[name] = leaves_of(name, content)
            except Malformed as exc:
                self.fail(f'{name} of {node.name} is not well formed, for {what}: {exc}')
        return found


def contents_of(given: Bootstrap, template: str) -> Iterator[tuple[str, bytes]]:
    """Yield each text that a node is given, with a name."""
    if given.user_data is not None:
        yield f'{USER_DATA} {template}'.strip(), given.user_data
    yield from ((file.path, file.content) for file in given.files)


def _is_free(one: Parameter) -> bool:
    """Return True for a parameter that takes any text."""
    return (
        one.type is ParameterType.STRING
        and not one.secret
        and not one.choices
        and not getattr(one, 'source', None)
    )
