"""Report of a run of mutants, as data and as text."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.testing.mutants.mutants import Mutant
from kiln.testing.mutants.verdicts import Fate, Survivor, Verdict

Key = tuple[str, str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutationReport:
    """What became of the mutants of a driver."""

    driver: str
    judged: Sequence[tuple[Mutant, Verdict]]
    #: Survivors with a known reason, by the key of the mutant.
    known: Mapping[Key, Survivor] = dataclasses.field(default_factory=dict)
    #: Keys of all mutants of the chosen modules, judged or not.
    keys: frozenset[Key] = frozenset()
    #: Percentage of the mutants that differ for a caller, and must be caught.
    least: float = 95.0
    seconds: float = 0.0

    @property
    def survivors(self) -> list[Mutant]:
        """Mutants that were not caught."""
        return [mutant for mutant, verdict in self.judged if not verdict.caught]

    @property
    def unexplained(self) -> list[Mutant]:
        """Survivors without a known reason."""
        return [one for one in self.survivors if one.key not in self.known]

    @property
    def equivalent(self) -> list[Mutant]:
        """Survivors that no caller can tell from the driver."""
        return [one for one in self.survivors if self._reason(one).startswith('equivalent')]

    @property
    def share(self) -> float:
        """Percentage that was caught of the mutants that are not equivalent."""
        different = len(self.judged) - len(self.equivalent)
        caught = len(self.judged) - len(self.survivors)
        return 100.0 * caught / different if different else 100.0

    @property
    def outdated(self) -> list[Key]:
        """Keys of known survivors that were caught, or of which no mutant exists."""
        caught = {mutant.key for mutant, verdict in self.judged if verdict.caught}
        modules = {place.partition(':')[0] for place, _, _ in self.keys}
        return [
            key
            for key in self.known
            if key in caught or (key not in self.keys and key[0].partition(':')[0] in modules)
        ]

    @property
    def ok(self) -> bool:
        """True if enough were caught, and each survivor has a reason."""
        return not self.unexplained and self.share >= self.least

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            'driver': self.driver,
            'ok': self.ok,
            'mutants': len(self.judged),
            'caught': len(self.judged) - len(self.survivors),
            'equivalent': len(self.equivalent),
            'unexplained': len(self.unexplained),
            'share': round(self.share, 1),
            'seconds': round(self.seconds, 1),
            'outdated': [list(key) for key in self.outdated],
            'operators': {
                name: dict(zip(('caught', 'survived'), counts, strict=True))
                for name, counts in self._by_operator().items()
            },
            'results': [
                {
                    'place': mutant.place,
                    'operator': mutant.operator,
                    'change': mutant.change,
                    'line': mutant.line,
                    'fate': verdict.fate.value,
                    'behaviour': verdict.behaviour,
                    'told': verdict.reason,
                    'seconds': round(verdict.seconds, 2),
                    'reason': '' if verdict.caught else self._reason(mutant),
                }
                for mutant, verdict in self.judged
            ],
        }

    def render(self) -> str:
        """Return the report as text; each survivor is an entry of a file of survivors."""
        return '\n'.join(self._lines())

    def _lines(self) -> Iterator[str]:
        for mutant, verdict in self.judged:
            if verdict.caught:
                continue
            yield from _entry(mutant)
            if verdict.fate is Fate.NOT_RUN:
                yield '  # The function is never called.'
            yield f'  # {self._reason(mutant) or "no reason is known"}'
            yield ''
        for place, operator, change in self.outdated:
            yield f'No longer a survivor, remove it: {place}, {operator}, {change}'
        for name, (caught, survived) in sorted(self._by_operator().items()):
            yield f'{name:20} {caught:4} caught {survived:4} survived'
        slow = [mutant for mutant, verdict in self.judged if verdict.fate is Fate.TIMED_OUT]
        yield (
            f'{self.driver}: {len(self.judged)} mutants, '
            f'{len(self.judged) - len(self.survivors)} caught ({len(slow)} by the time limit), '
            f'{len(self.survivors)} survived: {len(self.equivalent)} equivalent, '
            f'{len(self.unexplained)} unexplained; {self.share:.1f} % of those that differ '
            f'were caught, in {self.seconds:.0f} s.'
        )

    def _reason(self, mutant: Mutant) -> str:
        known = self.known.get(mutant.key)
        if known is None:
            return ''
        text = known.equivalent or known.missing
        return f'{"equivalent" if known.equivalent else "missing"}: {" ".join(text.split())}'

    def _by_operator(self) -> dict[str, list[int]]:
        counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for mutant, verdict in self.judged:
            counts[mutant.operator][not verdict.caught] += 1
        return counts


def _entry(mutant: Mutant) -> Iterator[str]:
    yield f'- place: {mutant.place}'
    yield f'  operator: {mutant.operator}'
    # A text of JSON is a text of YAML, too.
    yield f'  change: {json.dumps(mutant.change, ensure_ascii=False)}'
    for line in mutant.diff():
        yield f'  # {line}'
