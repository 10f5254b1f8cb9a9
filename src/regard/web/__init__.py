"""The JavaScript and CSS shared by the report, the notebook and the studio, and what assembles them into a page.

dom.js, formula.js, numbers.js, colours.js   elements, MathML, how numbers are written, the colours of weights
chart.js, heatmap.js, matrix.js              line charts, pictures of weights, small matrices as tables
clipboard.js, download.js, preferences.js    copying, saving, the language and theme chosen last
view/                                        the interactive attention view: attention_view.js is its entry, texts.js its texts
palette.js, palette.css                      made by `palette` from `regard.colours`, not files

The studio serves these ES modules as they are. A report is one file opened from disk, where browsers load no modules: `bundle` joins them.
"""

from __future__ import annotations

from .bundle import bundle, module_paths
from .embedding import script_json
from .source import GENERATED, source

__all__ = ["GENERATED", "bundle", "module_paths", "script_json", "source"]
