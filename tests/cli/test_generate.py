"""`regard generate`."""

import pytest
from command_line import regard, without_box


def test_a_long_prompt_says_how_much_is_read():
    result = regard("generate", "a " * 5000, "--max-new", 3)
    assert result.exit_code == 0
    assert "the prompt has 10,000 tokens; the model reads only the last 64" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", " "], "the text is empty"),
        (["generate", "我爱中国"], "most of the prompt is in characters outside the model's vocabulary"),
        (["generate", "x", "-m", "reader"], "reader is not a language model"),
    ],
)
def test_bad_input_is_an_error(words, message):
    result = regard(*words)
    assert result.exit_code == 2
    assert message in without_box(result.output)
    assert not result.stdout
    assert "Traceback" not in result.output


def test_an_unknown_device_is_an_error():
    result = regard("generate", "x", "--device", "tpu")
    assert result.exit_code == 2
    assert "'tpu' is not available; torch finds cpu" in without_box(result.output)
