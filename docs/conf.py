"""Settings of the documentation site: `sphinx-build -W --keep-going docs build/site`."""

import sys
from pathlib import Path

import hardgrad

sys.path.append(str(Path(__file__).parent / "_ext"))

project = "hardgrad"
version = release = hardgrad.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings", "generated"]
exclude_patterns = ["_*"]

html_theme = "furo"
html_title = "hardgrad"
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 4  # links such as design.md#speed
add_module_names = False  # `Round`, not `hardgrad.ops.Round`
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True  # `types=nn.Module`, not `types=<class ...>`
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
