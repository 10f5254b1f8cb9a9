"""Text files are checked by every command that reads them."""

import pytest
from command_line import regard, without_box


@pytest.mark.parametrize("command", [["translate", "--file"], ["read", "--ask", "Where?"], ["look", "shakespeare", "--file"]])
def test_a_byte_that_is_not_utf8_is_named_with_file_line_and_place(tmp_path, two_translators, command):
    file = tmp_path / "bad.txt"
    file.write_bytes("gut\nsch\xf6n\n".encode("latin-1"))
    result = regard(*command, file)
    assert result.exit_code == 2
    said = "bad.txt:2: byte 0xf6 is not UTF-8 (byte 4 of the line)"
    assert said.replace(" ", "") in without_box(result.output).replace(" ", "")  # a long path breaks the line anywhere
