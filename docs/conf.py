"""The documentation site: `make docs` builds it into build/docs. Pages are Markdown (MyST); the reference comes from docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import reference_pages  # noqa: E402

import regard  # noqa: E402

project = "regard"
author = "the regard developers"
version = release = regard.__version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["benchmarks/[a-z]*.md"]  # one table each; benchmarks/README.md has all
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]
nitpicky = True
smartquotes = False  # align="end" in a docstring is code

html_theme = "furo"
html_title = "regard"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
# Blue as in every picture of the library; system fonts, so that no page asks another server for anything.
_fonts = 'system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif'
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f4e9c", "color-brand-content": "#1f4e9c", "font-stack": _fonts},
    "dark_css_variables": {"color-brand-primary": "#8fb6f5", "color-brand-content": "#8fb6f5"},
}


def setup(app: object) -> None:
    """Write the generated pages before Sphinx looks for its sources."""
    reference_pages.write(FOLDER / "reference")
