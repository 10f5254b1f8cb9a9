"""The lesson: attention in ten minutes, eight screens. Its numbers come from the endpoints of the other pages."""

from ...page import Page

PAGE = Page(name="learn", order=1)
