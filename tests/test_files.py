"""Files are written whole or not at all, read within limits, and checked when they are read again."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.files import (
    FolderInUse,
    hold_folder,
    parse_line,
    read_bytes,
    read_json,
    read_record,
    read_texts,
    record_line,
    write_atomic,
    write_record,
    write_text,
)


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


def test_a_full_disk_and_a_read_only_folder_are_errors_that_name_the_file(tmp_path):
    def full(draft):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device; the file was not written: .*b\.txt"):
        write_atomic(tmp_path / "b.txt", full)

    def full_in_safetensors(draft):
        from safetensors.torch import save_file

        save_file({"a": torch.zeros(9)}, tmp_path / "no" / "such" / "folder.safetensors")

    with pytest.raises(OSError, match=r"the file was not written: .*b\.txt"):
        write_atomic(tmp_path / "b.txt", full_in_safetensors)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"the file was not written: .*b\.txt"):
        write_text(tmp_path / "file" / "b.txt", "a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="another user is played by a forked process; run on Linux or macOS")
def test_a_folder_that_may_not_be_written_to(tmp_path):
    """The file system says no: root, who may write anywhere, becomes another user for it."""
    tmp_path.chmod(0o555)
    for parent in tmp_path.parents:
        if parent.owner() == tmp_path.owner() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o111)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            write_text(tmp_path / "b.txt", "a")
            message = "it was written"
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
        os.write(writer, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    assert said == f"PermissionError: [Errno 13] Permission denied; the file was not written: '{tmp_path / 'b.txt'}'"
    assert list(tmp_path.iterdir()) == []
    os.close(reader)
    os.close(writer)


def test_a_list_of_texts(tmp_path):
    (tmp_path / "a.json").write_text('["a", "中"]', encoding="utf-8")
    assert read_texts(tmp_path / "a.json") == ["a", "中"]
    for wrong in ("", "{}", "[1]", '["a"', "null", "[" * 10**5, '["a"], "texts": ["b"]', '{"texts": []}'):
        (tmp_path / "a.json").write_text(wrong)
        with pytest.raises(ValueError, match=r"a\.json"):
            read_texts(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b'["\xff"]')
    with pytest.raises(ValueError, match=r"a\.json is not a text in UTF-8"):
        read_texts(tmp_path / "a.json")


def test_reading_has_a_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert len(read_bytes(tmp_path / "a", 100)) == 100
    with pytest.raises(ValueError, match="more than 99 bytes"):
        read_bytes(tmp_path / "a", 99)
    if Path("/dev/zero").exists():
        with pytest.raises(ValueError, match="more than 1,000 bytes"):
            read_bytes("/dev/zero", 1000)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 10**5, '{"a": ' * 10**5, '{"a": 1' + "0" * 5000 + "}", "\ud800"])
def test_what_is_not_a_json_object_is_one_line(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"a\.json") as error:
        read_json(tmp_path / "a.json")
    assert len(str(error.value).splitlines()) == 1


def test_a_record_whose_content_changed_is_damaged(tmp_path):
    path, keys = tmp_path / "run.json", frozenset({"task", "config"})
    write_record(path, {"task": "lm", "config": {"rate": 0.1, "name": "中"}})
    good = path.read_bytes()
    assert read_record(path, keys) == {"task": "lm", "config": {"rate": 0.1, "name": "中"}}
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            assert read_record(path, keys) == {"task": "lm", "config": {"rate": 0.1, "name": "中"}}  # a space became another one
        except ValueError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
    path.write_text('{"task": "lm"}')  # of an older version, without a checksum
    assert read_record(path, keys) == {"task": "lm"}


def test_a_line_of_a_log_that_changed_is_damaged():
    line = record_line({"step": 3, "text": 'a, "crc32": "x"', "loss": 0.1}).encode()
    assert parse_line(line) == {"step": 3, "text": 'a, "crc32": "x"', "loss": 0.1}
    assert parse_line(line[:-1]) is None
    assert parse_line(b'{"step": 3}\n') == {"step": 3}  # of an older version
    for bit in range(8 * (len(line) - 1)):
        data = bytearray(line)
        data[bit // 8] ^= 1 << bit % 8
        record = parse_line(bytes(data))
        assert record is None or ("crc32" not in record and len(record) > 3), bytes(data)  # its checksum's name changed: an unknown key


HOLD = """
import sys, time
from regard.files import hold_folder
with hold_folder(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_folder_is_held_until_its_process_ends(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderInUse, match=rf"in use by process {holder.pid} on .*, since 2"), hold_folder(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with hold_folder(tmp_path):  # the dead process holds nothing
        assert str(os.getpid()) in (tmp_path / "run.lock").read_text()
        with pytest.raises(FolderInUse, match=f"process {os.getpid()}"), hold_folder(tmp_path):
            pass
    assert not (tmp_path / "run.lock").exists()
