"""Credentials as systemd gives them to a service, with modes that it leaves."""

import os
import pathlib
import tempfile
from unittest import mock


def given(case, **contents):
    """Give this process credentials, with points for two underscores; return their directory."""
    directory = pathlib.Path(case.enterContext(tempfile.TemporaryDirectory())).resolve()
    for name, content in contents.items():
        path = directory / name.replace('__', '.')
        path.write_text(content)
        # The mask of the access list that lets the user of the service read it.
        path.chmod(0o440)
    directory.chmod(0o550)
    # The environment is the real one, and put back afterwards.
    case.enterContext(mock.patch.dict(os.environ, {'CREDENTIALS_DIRECTORY': str(directory)}))
    return directory
