"""Looks at the machines of a cluster by who works on it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.clusters.models import Cause, Node
from kiln.engine.health.machine_state import Seen, Survey, apply
from kiln.engine.nodes.node_table import Roster
from kiln.engine.nodes.transaction import Entry
from kiln.engine.plan.lifecycle import Act, cause_of
from kiln.engine.results import News


class Check:
    """Sees how the machines of a cluster are; what it finds is written, and no more is done."""

    def __init__(
        self,
        cluster_id: str,
        survey: Survey,
        run: Callable[[Callable[[], None]], Any],
        tell: Callable[[News], None],
    ) -> None:
        self._cluster_id = cluster_id
        self._survey = survey
        self._run = run
        self._tell = tell
        self._seen: Seen | None = None
        #: Who gave no answer to the last look.
        self.silent: Mapping[str, Cause] = {}
        #: Whether a look is under way.
        self.busy = False

    def learn(self, news: News) -> None:
        """Take in what was seen."""
        self.busy = False
        failed = Seen(silent={'': cause_of(news.error)}) if news.error is not None else None
        self._seen = failed or news.value

    def look(self, entry: Entry, nodes: Sequence[Node]) -> None:
        """Have a look begun, unless one is under way."""
        if not self.busy:
            self.busy = True
            look = functools.partial(self._look, nodes)
            entry.launches.append(functools.partial(self._run, look))

    def apply(self, entry: Entry, roster: Roster) -> bool:
        """Have written what the last look has shown, once; return whether there was one."""
        seen, self._seen = self._seen, None
        if seen is not None:
            self.silent = seen.silent
            apply(entry, roster, seen.sights)
        return seen is not None

    @property
    def cause(self) -> Cause | None:
        """Why not all could be seen; None if all were."""
        if not self.silent:
            return None
        count = len(self.silent)
        return Cause(
            code='not_seen',
            message=f'Cannot tell how all machines are: {count} backends gave no answer.',
            hint='What was known of their nodes is left as it was. Check again later.',
            because=next(iter(self.silent.values())),
        )

    def _look(self, nodes: Sequence[Node]) -> None:
        try:
            news = News(self._cluster_id, act=Act.LOOK, value=self._survey.look(nodes))
        # Whatever it is, the turn must hear that the look is over.
        except Exception as exc:
            news = News(self._cluster_id, act=Act.LOOK, error=exc)
        self._tell(news)
