"""Which of German, English and Chinese a text is in."""

import pytest

from regard.text.language import detect


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我爱中国", "zh"),
        ("Wo ist der Bahnhof?", "de"),
        ("Können Sie das bitte wiederholen?", "de"),
        ("DIE KATZE SITZT AUF DER MATTE", "de"),
        ("Where is the station?", "en"),
        ("The cat sat on the mat.", "en"),
        ("I don't know", "en"),
    ],
)
def test_sentences_are_told_for_sure(text, language):
    assert (detect(text).language, detect(text).sure) == (language, True)


@pytest.mark.parametrize("text", ["Hand", "Hund", "computer", "Tom", "hello"])
def test_words_of_both_languages_are_not_told_for_sure(text):
    assert detect(text).language in ("de", "en")
    assert not detect(text).sure


@pytest.mark.parametrize("text", ["Il fait beau aujourd'hui", "La biblioteca está cerrada los domingos", "Muito obrigado", "Merhaba dünya"])
def test_other_languages_in_latin_letters_are_neither(text):
    assert detect(text).language is None


def test_other_scripts_and_no_letters():
    assert (detect("Привет").language, detect("Привет").script) == (None, "CYRILLIC")
    assert detect("12:30").script is None
    assert detect("").language is None
