"""Values written into an HTML page."""

from __future__ import annotations

import json
from typing import Any


def script_json(value: Any) -> str:
    """Return JSON that may stand inside a script element: no text in it can end the element or begin a comment.

    >>> script_json("</script><!--")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
