"""An article that was read by focus, as an HTML page: sentences shaded by their attention weight, the answer marked."""

from __future__ import annotations

import html
from collections.abc import Sequence

from regard.colours import blue, hexadecimal, ink, red
from regard.training.tasks.article import ReadArticle
from regard.web import source

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_STEPS = 10  # shades


def article_html(results: Sequence[ReadArticle]) -> str:
    """Return a self-contained page with one section a question: the article, picked sentences shaded by weight, the answer in red."""
    chinese = any("\u3400" <= c <= "\u9fff" for c in results[0].question)
    sections = "\n".join(_section(result) for result in results)
    return f"""<!doctype html>
<html lang="{"zh-CN" if chinese else "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="regard">
<title>{html.escape(results[0].question)} · regard</title>
<link rel="icon" href="data:,">
<style>{source("web/palette.css")}{_css()}</style>
</head>
<body>
<main>
{sections}
</main>
</body>
</html>
"""


def _section(result: ReadArticle) -> str:
    parts = []
    for n, sentence in enumerate(result.sentences):
        weight = result.weights[n]
        if n not in result.picks:
            parts.append(f'<span title="{weight:.3f}">{html.escape(sentence.text)}</span>')
            continue
        text = html.escape(sentence.text)
        if result.answer.span and n == result.answer.sentence:
            answer = html.escape(result.answer.text)
            text = text.replace(answer, f"<strong>{answer}</strong>", 1)
        shade = round(min(max(weight, 0.0), 1.0) * _STEPS)
        parts.append(f'<mark class="w{shade}" title="{weight:.3f}">{text} <small>{weight:.2f}</small></mark>')
    legend = "".join(f'<span class="w{step}">{step / _STEPS:.1f}</span>' for step in range(_STEPS + 1))
    return f"""<section>
<h1>{html.escape(result.question)}</h1>
<p class="answer"><strong>{html.escape(result.answer.text)}</strong> <small>({html.escape(result.answer.certainty())})</small></p>
<p class="saving">{html.escape(result.saving())}</p>
<p class="legend" aria-label="attention weight, linear">{legend} <small>attention weight, linear</small></p>
<article>{" ".join(parts)}</article>
</section>"""


def _css() -> str:
    """The style of the page: shades of the weights for light and dark backgrounds."""

    def shades(dark: bool) -> str:
        rules = []
        for step in range(_STEPS + 1):
            colour = blue(step / _STEPS, dark=dark)
            rules.append(f".w{step}{{background:{hexadecimal(colour)};color:{hexadecimal(ink(colour))}}}")
        return "".join(rules) + f"strong{{color:{hexadecimal(red(dark=dark))}}}"

    light, dark = (hexadecimal(blue(0, dark=d)) for d in (False, True))
    front = [hexadecimal(ink(blue(0, dark=d))) for d in (False, True)]
    return f"""
body{{margin:0;background:{light};color:{front[0]};font:16px/1.7 system-ui,"Noto Sans CJK SC","PingFang SC","Microsoft YaHei",sans-serif}}
main{{max-width:65ch;margin:0 auto;padding:24px 16px}}
h1{{font-size:1.25rem;margin:24px 0 8px}}
mark{{border-radius:3px;padding:1px 3px}}
mark strong{{background:{light};padding:0 3px;border-radius:3px}}
small,.saving{{font-variant-numeric:tabular-nums;font-size:.8rem;font-weight:400}}
.legend span{{display:inline-block;padding:0 4px;font-size:.75rem;font-variant-numeric:tabular-nums}}
article{{margin-top:16px}}
{shades(False)}
@media(prefers-color-scheme:dark){{body{{background:{dark};color:{front[1]}}}mark strong{{background:{dark}}}{shades(True)}}}
"""
