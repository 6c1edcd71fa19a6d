"""How Sphinx builds this documentation."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / 'ext')]

project = 'kiln'
copyright = 'The kiln developers'
extensions = ['sphinx.ext.autodoc', 'sphinx.ext.viewcode', 'kiln_reference']
html_theme = 'furo'
html_static_path = ['_static']
autodoc_member_order = 'bysource'
autodoc_typehints = 'description'
exclude_patterns = []
nitpicky = False
