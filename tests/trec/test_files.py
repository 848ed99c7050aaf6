"""Which files paths name, and the lines in them, for readers without Spark."""

import bz2
import gzip

import pytest

from spark_rankeval.errors import InputError
from spark_rankeval.trec.files import list_files, name_of, read_lines

CONTENTS = {
    "runs/a.run": b"1\r\n2\n\n4",
    "runs/b 1.run.gz": gzip.compress(b"1\n2\n") + gzip.compress(b"3\n"),
    "runs/c[2].txt.bz2": bz2.compress(b"\xef\xbb\xbf1\r2"),
    "runs/_SUCCESS": b"",
    "runs/.hidden.run": b"x",
    "runs/deep/d.run": b"",
}


@pytest.fixture
def folder(tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("runs/a.run", ["runs/a.run"]),
        ("runs", ["runs/a.run", "runs/b 1.run.gz", "runs/c[2].txt.bz2"]),
        ("runs/", ["runs/a.run", "runs/b 1.run.gz", "runs/c[2].txt.bz2"]),
        ("runs/*.run*", ["runs/a.run", "runs/b 1.run.gz"]),
        ("r*/?.run", ["runs/a.run"]),
        ("*/*/*.run", ["runs/deep/d.run"]),
        ("runs/c[2].txt.bz2", ["runs/c[2].txt.bz2"]),
        ("runs/[ab]*", ["runs/a.run", "runs/b 1.run.gz"]),
        ("runs/_SUCCESS", ["runs/_SUCCESS"]),
        ("runs/d*", ["runs/deep/d.run"]),
    ],
)
def test_files_folders_and_patterns(folder, path, names, monkeypatch):
    wanted = [str(folder / name) for name in names]
    assert list_files([f"{folder}/{path}"]) == wanted
    assert list_files([f"file://{folder}/{path}"]) == wanted
    assert list_files([f"{folder}/{path}", str(folder / "runs/a.run")]) == [*wanted, str(folder / "runs/a.run")]
    monkeypatch.chdir(folder)
    assert [name.removeprefix("./") for name in list_files([path])] == names


@pytest.mark.parametrize("path", ["no.run", "runs/*.csv", "none/*", "runs/[", "nothing://there/x"])
def test_a_path_that_names_nothing_is_said(folder, path):
    given = path if "://" in path else f"{folder}/{path}"
    with pytest.raises(InputError, match=r"there is no file at|is no path that Arrow can read"):
        list_files([str(folder / "runs/a.run"), given])


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 1 << 23])
def test_lines_end_as_they_do_for_spark_wherever_chunks_end(folder, chunk, monkeypatch):
    monkeypatch.setattr("spark_rankeval.trec.files._CHUNK", max(chunk, 3))  # a mark of byte order has three bytes
    found = [[line for lines in read_lines(str(folder / name)) for line in lines] for name in list(CONTENTS)[:3]]
    assert found == [[b"1", b"2", b"", b"4"], [b"1", b"2", b"3"], [b"1", b"2"]]


def test_the_name_of_a_file_is_that_of_its_run():
    assert [name_of(one) for one in ("/a/bm25.run.gz", "bm25.v2.txt", "file:/a/b%201.zst", "s3://b/x.run")] == [
        "bm25.run", "bm25.v2.txt", "b 1", "x.run"
    ]  # fmt: skip
