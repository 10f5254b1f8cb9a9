"""Who may use the studio: a token in the printed address, exchanged at once for a cookie. Other users of the machine have neither.

The address with the token is opened once. The answer sets a cookie that scripts cannot read and that other sites cannot make a browser
send, and redirects to the address without the token. Programs send the token as `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs

WITHOUT_TOKEN = """<!doctype html>
<html lang="en">
  <meta charset="utf-8" />{again}
  <title>regard studio</title>
  <p>The studio answers only whoever started it: open the address that <code>regard studio</code> printed, with its token.</p>
  <p lang="zh">请打开 <code>regard studio</code> 在终端里打印的、带令牌的地址。</p>
</html>
"""
# Following a link from another site (or a file) the browser keeps the cookie back, but not when the page then loads itself.
AGAIN = '\n  <meta http-equiv="refresh" content="0; url=/" />'


class Access:
    """The token of one studio, and the cookie it is exchanged for.

    >>> access = Access()
    >>> access.allows({"authorization": f"Bearer {access.token}"}), access.allows({"authorization": "Bearer guess"}), access.allows({})
    (True, False, False)
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._cookie = secrets.token_urlsafe(24)
        self._codes: set[str] = set()

    def one_time_token(self) -> str:
        """A token that is valid once: for an address in the arguments of a process, which other users can see."""
        code = secrets.token_urlsafe(24)
        self._codes.add(code)
        return code

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request's headers hold the cookie or the token."""
        cookies = [part.strip() for part in headers.get("cookie", "").split(";")]
        scheme, _, token = headers.get("authorization", "").partition(" ")
        wanted = f"{_cookie_name(headers)}={self._cookie}"
        return any(_same(cookie, wanted) for cookie in cookies) or (scheme.lower() == "bearer" and _same(token.strip(), self.token))

    def exchange(self, query: bytes, headers: Mapping[str, str]) -> str | None:
        """The Set-Cookie header for an address with the token or a one-time token; None for any other address."""
        tokens = parse_qs(query.decode("latin-1"), max_num_fields=100).get("token", [""]) if len(query) < 10_000 else [""]
        code = next((code for code in self._codes if _same(tokens[-1], code)), None)
        self._codes.discard(code or "")
        if code is None and not _same(tokens[-1], self.token):
            return None
        return f"{_cookie_name(headers)}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"


def page_without_token(headers: Mapping[str, str]) -> bytes:
    """The page for a browser that has no cookie, or did not send it because a link of another site was followed."""
    return WITHOUT_TOKEN.format(again=AGAIN if headers.get("sec-fetch-site") in ("cross-site", "same-site") else "").encode()


def _cookie_name(headers: Mapping[str, str]) -> str:
    """A name for each port, because browsers share the cookies of a host among its ports."""
    return f"regard-studio-{headers.get('host', '').rpartition(':')[2]}"


def _same(received: str, wanted: str) -> bool:
    """Compare in a time that does not depend on where the texts differ."""
    return hmac.compare_digest(received.encode("utf-8", "surrogateescape"), wanted.encode())
