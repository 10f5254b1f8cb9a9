"""The token in a real browser: typed, opened from a file or a link of another site, and gone from the address at once."""

from pathlib import Path
from typing import Any


def test_the_token_leaves_the_address_and_is_not_copied(browser: Any, studio: str, studio_tokens: dict[str, str], wait: Any) -> None:
    tab = browser.new_context()
    page = tab.new_page()
    page.goto(f"{studio}?token={studio_tokens[studio]}#cost?model=gpt2")
    page.wait_for_selector("#page[data-ready]")
    assert page.url.startswith(f"{studio}#cost")
    page.go_back()
    assert "token" not in page.url  # it is not in the history either
    page.goto(studio)
    page.wait_for_selector("#page[data-ready]")
    assert page.evaluate("document.cookie") == ""  # scripts do not see it
    assert studio_tokens[studio] not in page.content()
    tab.close()


def test_the_page_opens_from_a_file_or_another_site(
    browser: Any, studio: str, studio_tokens: dict[str, str], wait: Any, tmp_path: Path
) -> None:
    """There the browser keeps the strict cookie back, first after setting it and again at every link."""
    link = tmp_path / "link.html"
    tab = browser.new_context()
    for address in (f"{studio}?token={studio_tokens[studio]}", studio):
        link.write_text(f'<a href="{address}">open</a>', encoding="utf-8")
        page = tab.new_page()
        page.goto(link.as_uri())
        page.locator("a").click()
        page.wait_for_selector("#page[data-ready]")
        assert "token" not in page.url
    tab.close()


def test_without_the_token_the_page_says_where_to_find_it(browser: Any, studio: str, wait: Any) -> None:
    tab = browser.new_context()
    page = tab.new_page()
    for query in ("", "?token=guess"):
        page.goto(studio + query)
        wait(page.locator("p").first).to_contain_text("regard studio")
        assert page.locator("#page").count() == 0
    tab.close()
