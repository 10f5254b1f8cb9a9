"""Chat templates: found in a folder, rendered in a sandbox, and equal to transformers' rendering."""

import json
import sys

import pytest

from regard.zoo.chat import render, template_in

TEMPLATE = (
    "{% for message in messages %}{{ bos_token }}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


def test_a_template_is_found_where_it_is_stored(tmp_path):
    assert template_in(tmp_path) == (None, {})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "bos_token": {"content": "<s>"}, "x": 1}))
    assert template_in(tmp_path) == (TEMPLATE, {"bos_token": "<s>"})
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert template_in(tmp_path)[0] == "yes"
    (tmp_path / "chat_template.jinja").write_text("of its own")
    assert template_in(tmp_path)[0] == "of its own"


def test_a_conversation_by_hand():
    text = render(TEMPLATE, MESSAGES, {"bos_token": "<s>"})
    expected = "<s><|im_start|>system\nBe brief.<|im_end|>\n<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert text == expected


def test_it_is_what_transformers_renders():
    tokenizers = pytest.importorskip("tokenizers", reason="transformers' tokenizer needs tokenizers: pip install tokenizers")
    transformers = pytest.importorskip("transformers", reason="the peer is transformers: pip install transformers")
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    peer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", chat_template=TEMPLATE)
    wanted = peer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert render(TEMPLATE, MESSAGES, {"bos_token": "<s>"}) == wanted


def test_a_template_cannot_reach_python_and_may_refuse():
    with pytest.raises(ValueError, match="not valid"):
        render("{{ ''.__class__.__mro__ }}", MESSAGES)
    with pytest.raises(ValueError, match="refuses this conversation: no system"):
        render("{{ raise_exception('no system') }}", MESSAGES)
    with pytest.raises(ValueError, match="not valid"):
        render("{% for %}", MESSAGES)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}", "did not end within"),
        ("{{ 1 // 0 }}", "not valid"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "not valid"),
        ("{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}", "characters"),
    ],
)
def test_a_template_that_does_not_end_is_stopped(template, said):
    with pytest.raises(ValueError, match=said):
        render(template, MESSAGES)
    assert sys.gettrace() is None
