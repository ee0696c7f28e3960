"""``grilly search``: what a folder holds is what is found, whatever characters it holds; errors are one line."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from grilly.cli import app
from grilly_ext_memory.text.encoders import HashingEncoder
from grilly_ext_memory.text.semantic import SemanticSearch


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bread.txt").write_text("How to bake bread: flour, water, salt.")

    def search(*arguments):
        result = CliRunner().invoke(app, ["search", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return search


def test_brackets_colons_and_unicode_are_printed_as_they_are(run, tmp_path):
    text = "See [bold]the page[/x] :smile: [link](url) naïve 日本語"
    (tmp_path / "docs" / "[b]ü[b].md").write_text(text, "utf-8")
    assert run("build", "docs")[0] == 0
    code, output = run("query", "日本語 page", "-k", "1")
    assert code == 0 and text in output and "[b]ü[b].md" in output


def test_a_second_build_forgets_files_that_are_gone(run, tmp_path):
    (tmp_path / "docs" / "lists.txt").write_text("Lists are sorted with sort.")
    run("build", "docs")
    (tmp_path / "docs" / "lists.txt").unlink()
    code, output = run("build", "docs")
    assert code == 0 and "1 passage of 1 file" in output and "1 file that is gone" in output
    assert "lists.txt" not in run("query", "sorted lists")[1]


def test_the_index_hidden_files_and_what_is_no_text_are_left_out(run, tmp_path):
    docs = tmp_path / "docs"
    (docs / ".git").mkdir()
    (docs / ".git" / "config").write_text("bread")
    (docs / "nul.txt").write_bytes(b"bread\0bread")
    (docs / "latin.txt").write_bytes(b"bread caf\xe9")
    (docs / "dangling").symlink_to("nowhere")
    code, output = run("build", "docs", "--index", "docs/index")
    assert code == 0 and "1 passage of 1 file" in output and "left out" in output
    assert "latin.txt" in output and "nul.txt" in output
    assert "1 passage of 1 file" in run("build", "docs", "--index", "docs/index")[1]


def test_nothing_found_is_said(run):
    run("build", "docs")
    assert "nothing found" in run("query", "bread", "--source", "other.txt")[1]
    code, output = run("query", "  ")
    assert code == 1 and "text" in output


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ("nope", "module:attribute"),
        ("nope:x", "'nope'"),
        ("json:nope", "'nope'"),
        ("json:dumps", "numbers"),
        ("json:__name__", "callable"),
    ],
)
def test_an_encoder_that_is_none_is_one_line(run, encoder, words):
    code, output = run("build", "docs", "--encoder", encoder)
    assert code == 1 and words in output and len(output.splitlines()) == 1
    assert run("build", "docs")[0] == 0  # nothing was left behind


def test_foreign_files_are_one_line_and_stay(run, tmp_path):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "documents.sqlite").write_text("hello")
    code, output = run("build", "docs", "--index", "foreign")
    assert code == 1 and "documents.sqlite" in output and len(output.splitlines()) == 1
    assert [p.name for p in (tmp_path / "foreign").iterdir()] == ["documents.sqlite"]
    assert (tmp_path / "foreign" / "documents.sqlite").read_text() == "hello"
    code, output = run("build", "docs", "--index", "docs/bread.txt")
    assert code == 1 and len(output.splitlines()) == 1
    code, output = run("build", "docs", "--pattern", "/etc/*")
    assert code == 1 and "pattern" in output


def test_vectors_of_two_encoders_are_not_mixed(tmp_path):
    with SemanticSearch(tmp_path / "s", HashingEncoder(64)) as search:
        search.add(["one"])
    with pytest.raises(ValueError, match="another encoder"):
        SemanticSearch(tmp_path / "s", HashingEncoder(64, (2, 3)))
    with SemanticSearch(tmp_path / "s", HashingEncoder(64)) as search:
        assert search.query("one")[0].document.text == "one"


def test_an_encoder_named_in_a_folder_is_never_imported(run, tmp_path, monkeypatch):
    """Opening a folder of somebody else's runs no code that it names; who opens it says which encoder to use."""
    (tmp_path / "widths.py").write_text("def encode(texts): return [[float(len(t)), 1.0] for t in texts]\n")
    assert run("build", "docs", "--index", "there", "--encoder", "widths:encode")[0] == 0
    monkeypatch.delitem(sys.modules, "widths", raising=False)
    code, output = run("query", "bread", "--index", "there")
    assert code == 1 and "'widths:encode'" in output and "--encoder" in output and "widths" not in sys.modules
    assert run("query", "bread", "--index", "there", "--encoder", "widths:encode")[0] == 0
    (tmp_path / "there" / "search.json").write_text(
        json.dumps({"format": "grilly-search 1", "encoder": 7, "dim": 2})
    )
    assert run("query", "bread", "--index", "there")[0] == 1
