"""An operation that looks at a cluster and changes nothing: how it is, and what drifted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.cluster_models import Cause, Node
from kiln.engine.conditions import outdated
from kiln.engine.entry import Entry
from kiln.engine.lifecycle import Act, cause_of
from kiln.engine.news import News
from kiln.engine.roster import Roster
from kiln.engine.survey import Seen, Survey, apply


class Check:
    """Looks once at all machines of a cluster; what it finds is told, and no more is done."""

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
        #: Whether a look is under way.
        self.busy = False

    def learn(self, news: News) -> None:
        """Take in what was seen."""
        self.busy = False
        failed = Seen(silent={'': cause_of(news.error)}) if news.error is not None else None
        self._seen = failed or news.value

    def go_on(self, entry: Entry, roster: Roster, made_with: Mapping[str, str]) -> bool:
        """Look, or write what was seen; return whether it is over.

        :param made_with: by group, what its nodes are to be made with.
        """
        if self._seen is None:
            if not self.busy:
                self.busy = True
                look = functools.partial(self._look, roster.nodes())
                entry.launches.append(functools.partial(self._run, look))
            return False
        apply(entry, roster, self._seen.sights)
        old = outdated(roster.nodes(), made_with)
        entry.tell(
            'drift',
            f'{len(old)} of {len(roster)} nodes are made with an older spec',
            facts={'nodes': [node.id for node in old], 'of': len(roster)},
        )
        return True

    @property
    def cause(self) -> Cause | None:
        """Why not all could be seen; None if all were."""
        silent = self._seen.silent if self._seen else {}
        if not silent:
            return None
        return Cause(
            code='not_seen',
            message=f'Cannot tell how all machines are: {len(silent)} backends gave no answer.',
            hint='What was known of their nodes is left as it was. Check again later.',
            because=next(iter(silent.values())),
        )

    def _look(self, nodes: Sequence[Node]) -> None:
        try:
            news = News(self._cluster_id, act=Act.LOOK, value=self._survey.look(nodes))
        # Whatever it is, the turn must hear that the look is over.
        except Exception as exc:
            news = News(self._cluster_id, act=Act.LOOK, error=exc)
        self._tell(news)
