"""Which language a text is in, by its letters."""

import pytest

from regard.text.script import script_of
from regard.zoo.language import foreign, language_of, mismatch


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我爱中国", "zh"),
        ("我愛中國。", "zh"),
        ("Tom 是我的 friend", "zh"),
        ("我喜欢Microsoft Windows", "zh"),
        ("Ich liebe dich", "de"),
        ("I love you", "de"),
        ("12:30 !", None),
        ("", None),
    ],
)
def test_by_script(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize("text", ["Привет", "שלום", "こんにちは", "안녕하세요", "สวัสดี", "これは本です"])
def test_other_scripts_are_refused_by_name(text):
    with pytest.raises(ValueError, match=f"the text is in {script_of(text).capitalize()} letters"):
        language_of(text)


def test_foreign_letters_are_noticed():
    assert foreign("hello", "zh")
    assert not foreign("hello 你好", "zh")
    assert not foreign("12", "zh")
    assert foreign("你好", "de")
    assert foreign("The cat sat on the mat.", "de")
    assert not foreign("Die Katze sitzt auf der Matte.", "de")
    assert mismatch("你好", "de") == "the text appears to be Chinese, not German"
    assert mismatch("Merhaba dünya", "de") == "the text does not look like German"
    assert not foreign("bonjour", "fr")
