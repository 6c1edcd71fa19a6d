"""Output of a demo: titles, text, and the claims that were checked."""

from __future__ import annotations

from typing import TextIO

from kiln.cli.output.visible_stream import drawn_on
from kiln.clock import SYSTEM_CLOCK, Clock


class Stage:
    """Prints text, coloured on a terminal, and collects expectations."""

    def __init__(self, out: TextIO, clock: Clock = SYSTEM_CLOCK) -> None:
        self.out = drawn_on(out)
        self.clock = clock
        #: True if the output is a terminal.
        self.drawn = out.isatty()
        #: The claims of the demo, each with its result.
        self.expectations: list[tuple[str, bool]] = []
        self._began = self.clock.monotonic()

    def title(self, text: str) -> None:
        self.out.write('\n')
        self.say(text, '1;36')

    def say(self, text: str, colour: str = '') -> None:
        coloured = colour and self.drawn
        self.out.write(f'\033[{colour}m{text}\033[0m\n' if coloured else f'{text}\n')
        self.out.flush()

    def expect(self, claim: str, seen: object, wanted: object) -> None:
        """Record a claim, which is true if ``seen`` equals ``wanted``."""
        text = claim if seen == wanted else f'{claim}: {seen}, not {wanted}'
        self.expectations.append((text, seen == wanted))

    def end(self) -> bool:
        """Print all claims; return True if every claim was true."""
        self.title('Checks')
        for claim, true in self.expectations:
            self.say(f'{"ok  " if true else "FAIL"}  {claim}', '32' if true else '31')
        self.say(f'Total: {self.clock.monotonic() - self._began:.1f} s.', '1')
        return all(true for _, true in self.expectations)
