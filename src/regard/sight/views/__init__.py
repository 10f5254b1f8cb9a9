"""Views of a sighting: the interactive HTML page (file and notebook), matplotlib figures, terminal text.

`report` builds the page from `payload` (the data) and `static/` (JavaScript and CSS); `alignment` is the page of a translation's
alignment. `figures`, `word_figures` and `difference` draw with matplotlib, `head_figure` one head in any of these views, `terminal`
in text. `heatmaps` and `token_texts` prepare the data that all of them draw; `token_display` turns a tokenizer's tokens into readable text.
"""
