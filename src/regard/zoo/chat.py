"""Chat templates: how a published model was trained to read a conversation.

A template is a Jinja program stored with the weights (`tokenizer.chat_template` in a GGUF file; `chat_template.jinja` or the key
`chat_template` of tokenizer_config.json in a Hugging Face folder). It is run in Jinja's sandbox, which has no access to Python, and
stopped when it runs or writes too long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import MAX_JSON_BYTES, read_json, read_text

_MAX_LINES = 2_000_000  # of Python that a template may run: about a second; published templates run a few hundred per message
_MAX_CHARACTERS = 10_000_000


def template_in(folder: Path) -> tuple[str | None, dict[str, str]]:
    """Return the chat template of a Hugging Face folder (None if it has none) and its special tokens by name, such as "bos_token"."""
    file, settings_file = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    settings = read_json(settings_file) if settings_file.is_file() else {}
    tokens = {name: value for name, value in settings.items() if name.endswith("_token")}
    names = {name: value.get("content") if isinstance(value, dict) else value for name, value in tokens.items()}
    special = {name: value for name, value in names.items() if isinstance(value, str)}
    if file.is_file():
        return read_text(file, MAX_JSON_BYTES), special
    template = settings.get("chat_template")
    if isinstance(template, list):  # several templates with names
        template = next((item.get("template") for item in template if isinstance(item, dict) and item.get("name") == "default"), None)
    return template if isinstance(template, str) else None, special


def render(template: str, messages: Sequence[Mapping[str, str]], special: Mapping[str, str] | None = None) -> str:
    """Return a conversation as the text the model continues with its reply.

    messages  each with "role" ("system", "user" or "assistant") and "content"

    >>> render("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
    ...        [{"role": "user", "content": "Hello"}])
    '<user>Hello<assistant>'
    """
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ImportError("chat templates need the package jinja2: pip install jinja2") from error

    def refuse(message: str) -> None:
        raise ValueError(f"the model's chat template refuses this conversation: {message}")

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    try:
        compiled = environment.from_string(template)
        return _bounded(compiled.generate, messages=list(messages), add_generation_prompt=True, **(special or {}))
    except (TemplateError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:  # what a program can raise
        raise ValueError(f"the model's chat template is not valid ({error}); generate without --chat") from error


def _bounded(generate: Callable[..., Iterable[str]], **variables: object) -> str:
    """Return the text a template generates; ValueError when it runs more than _MAX_LINES or writes more than _MAX_CHARACTERS."""
    lines = 0

    def count(frame: Any, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > _MAX_LINES:
            raise ValueError(f"the model's chat template did not end within {_MAX_LINES:,} steps; generate without --chat")
        return count

    parts, length, before = [], 0, sys.gettrace()
    sys.settrace(count)  # a template is compiled to Python, whose lines can be counted from any thread
    try:
        for part in generate(**variables):
            parts.append(part)
            length += len(part)
            if length > _MAX_CHARACTERS:
                raise ValueError(f"the model's chat template wrote more than {_MAX_CHARACTERS:,} characters; generate without --chat")
    finally:
        sys.settrace(before)
    return "".join(parts)
