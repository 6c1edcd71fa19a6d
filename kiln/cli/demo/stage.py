"""Where a demonstration tells what it does, and what came true of what it claims."""

from __future__ import annotations

import dataclasses
from typing import TextIO

from kiln.clock import SYSTEM_CLOCK, Clock


@dataclasses.dataclass
class Expectation:
    """Something the demo claims, and whether it came true."""

    claim: str
    true: bool


class Stage:
    """Text with colours on a terminal, and without elsewhere."""

    def __init__(self, out: TextIO, clock: Clock = SYSTEM_CLOCK) -> None:
        self.out = out
        self.clock = clock
        #: Whether there is a terminal to draw on.
        self.drawn = out.isatty()
        self.expectations: list[Expectation] = []
        self._began = self.clock.monotonic()

    def title(self, text: str) -> None:
        self.out.write('\n')
        self.say(text, '1;36')

    def say(self, text: str, colour: str = '') -> None:
        coloured = colour and self.drawn
        self.out.write(f'\033[{colour}m{text}\033[0m\n' if coloured else f'{text}\n')
        self.out.flush()

    def expect(self, claim: str, seen: object, wanted: object) -> None:
        """Note whether something is as it is claimed to be."""
        text = claim if seen == wanted else f'{claim}: {seen}, not {wanted}'
        self.expectations.append(Expectation(text, seen == wanted))

    def end(self) -> bool:
        """Tell what came true; return whether everything did."""
        self.title('What was promised')
        for one in self.expectations:
            self.say(f'{"ok  " if one.true else "FAIL"}  {one.claim}', '32' if one.true else '31')
        self.say(f'All in {self.clock.monotonic() - self._began:.1f} s.', '1')
        return all(one.true for one in self.expectations)
