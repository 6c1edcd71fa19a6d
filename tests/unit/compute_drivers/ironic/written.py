"""Options of an Ironic backend, read from a file as kiln reads them."""

import pathlib
import tempfile

from kiln import conf as kiln_conf
from kiln.compute_drivers.ironic.conf import opts
from kiln.conf import compute


def written(*lines):
    """Return the values of [compute:bare] with these lines in it."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'kiln.conf'
        file.write_text('\n'.join(['[compute:bare]', 'driver = ironic', *lines]))
        conf = kiln_conf.load([str(file)], environment={})
        kiln_conf.register(conf, 'compute:bare', compute.BACKEND_OPTS)
        return kiln_conf.register(conf, 'compute:bare', opts)
