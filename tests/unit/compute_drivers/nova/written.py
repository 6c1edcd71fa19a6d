"""Options of a backend, read from a file as kiln reads them."""

import pathlib
import tempfile

from kiln import conf as kiln_conf
from kiln.compute_drivers.nova.conf import opts
from kiln.conf import compute


def written(*lines, driver='nova', opts=opts):
    """Return the values of [compute:east] with these lines in it, for a driver."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'kiln.conf'
        file.write_text('\n'.join(['[compute:east]', f'driver = {driver}', *lines]))
        conf = kiln_conf.load([str(file)], environment={})
        kiln_conf.register(conf, 'compute:east', compute.BACKEND_OPTS)
        return kiln_conf.register(conf, 'compute:east', opts)
