"""The front page: what this is, where to begin, and what was opened last."""

from ...page import Page

PAGE = Page(name="home", order=0)
