"""Files are written whole or not at all."""

import stat

import pytest

from regard.files import write_atomic, write_text


def test_a_file_is_written_with_its_folder_and_may_be_read_by_others(tmp_path):
    target = write_text(tmp_path / "a" / "b.txt", "注意")
    assert target.read_text(encoding="utf-8") == "注意"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert [file.name for file in target.parent.iterdir()] == ["b.txt"]


def test_what_fails_half_way_leaves_the_old_file_and_no_draft(tmp_path):
    target = write_text(tmp_path / "b.txt", "old")

    def fail(draft):
        draft.write_text("half")
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="full"):
        write_atomic(target, fail)
    with pytest.raises(UnicodeEncodeError):
        write_text(target, "\ud800")
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["b.txt"]
