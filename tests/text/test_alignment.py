import torch

from regard.text import Word, draw, word_alignment


def test_source_pieces_add_up_and_target_pieces_average():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.0, 1.0, 0.0]])
    got = word_alignment(weights, [Word("ab", 0, 2), Word("c", 2, 3)], [Word("x", 0, 2), Word("y", 2, 3)])
    torch.testing.assert_close(got, torch.tensor([[0.6, 0.4], [1.0, 0.0]]))


def test_no_words_give_an_empty_alignment():
    assert word_alignment(torch.ones(2, 2), [], [Word("x", 0, 2)]).shape == (0, 1)


def test_the_picture_lines_up_under_wide_characters():
    lines = draw(torch.eye(2), ["I", "love"], ["我", "beaut"]).splitlines()
    assert lines == ["      我  beaut  largest weight", "I     @@         1.00 我", "love       @@    1.00 beaut"]


def test_plain_pictures_are_ascii_and_shade_with_the_weight():
    picture = draw(torch.tensor([[0.0], [0.2], [0.5], [1.0]]), ["a", "b", "c", "d"], ["s"])
    assert picture.isascii()
    assert "\x1b" not in picture
    assert [line[3:5] for line in picture.splitlines()[1:]] == ["  ", "::", "==", "@@"]


def test_colour_grows_with_the_weight_and_nothing_is_the_background():
    dark = draw(torch.tensor([[0.0], [0.3], [1.0]]), ["a", "b", "c"], ["s"], colour=True).splitlines()[1:]
    assert "\x1b" not in dark[0]
    blue = [tuple(map(int, line.split("48;2;")[1].split("m")[0].split(";"))) for line in dark[1:]]
    assert sum(blue[1]) > sum(blue[0])
    assert all(b > r for r, _, b in blue)
    light = draw(torch.tensor([[0.3], [1.0]]), ["b", "c"], ["s"], colour=True, dark=False).splitlines()[1:]
    deep = [tuple(map(int, line.split("48;2;")[1].split("m")[0].split(";"))) for line in light]
    assert sum(deep[1]) < sum(deep[0])


def test_a_drawing_has_the_target_down_the_source_across_and_names_the_largest():
    lines = draw(torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]), ["love", "you"], ["ich", "dich", "."]).splitlines()
    assert lines[0].split() == ["ich", "dich", ".", "largest", "weight"]
    assert [line.split()[0] for line in lines[1:]] == ["love", "you"]
    assert [line.split()[-2:] for line in lines[1:]] == [["0.90", "ich"], ["0.50", "."]]
