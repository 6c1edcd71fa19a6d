"""Cases: the ways in which a new user meets kiln."""

import dataclasses

USER = 'user'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One case: owner, checkout and environment."""

    name: str
    about: str
    user: str = USER
    owner: str = USER
    folder: str = '/home/user/kiln'
    git: bool = True
    sigint_ignored: bool = False
    # After set-up.
    offline: bool = False
    # Options of the tmpfs; None is what the machine has.
    tmp: str | None = None
    shm: str | None = None

    @property
    def home(self) -> str:
        """The home of the user who runs the command."""
        return '/root' if self.user == 'root' else f'/home/{self.user}'


CASES = {
    case.name: case
    for case in (
        Case(name='clone', about='a git clone, run by its owner'),
        Case(name='archive', about='a tree without .git', git=False),
        Case(
            name='foreign',
            about="a clone that is somebody else's, run by root: git refuses to answer",
            user='root',
            folder='/srv/kiln',
        ),
        Case(
            name='folder',
            about='a clone in a folder with a space and an umlaut in its name',
            folder='/home/user/kiln für uns',
        ),
        Case(
            name='sigint',
            about='SIGINT ignored, as in a background job of a script',
            sigint_ignored=True,
        ),
        Case(name='offline', about='no network once it is set up', offline=True),
        Case(
            name='small',
            about='a /tmp of 512 MB and a /dev/shm of 64 MB, as containers have',
            tmp='size=512m',
            shm='size=64m',
        ),
    )
}
