"""How a site runs the programs of its drivers."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """The user that programs run as, and the folder of their runs."""

    #: The name of the user; None is the user of kiln.
    user: str | None = None
    #: None is the default.
    runs: Path | None = None


#: As kiln itself, in the default folder.
AS_KILN = Programs()
