"""Chat templates: how a published model was trained to read a conversation.

A template is a Jinja program stored with the weights (`tokenizer.chat_template` in a GGUF file; `chat_template.jinja` or the key
`chat_template` of tokenizer_config.json in a Hugging Face folder). It is run in Jinja's sandbox, which has no access to Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..files import MAX_JSON_BYTES, read_json, read_text


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
        return str(compiled.render(messages=list(messages), add_generation_prompt=True, **(special or {})))
    except TemplateError as error:
        raise ValueError(f"the model's chat template is not valid ({error}); generate without --chat") from error
