"""Search in texts: what is stored, filtered, removed, whole again after a process died; the command line; the demo."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from grilly.cli import app
from grilly_core.errors import FileFormatError
from grilly_ext_memory import demo
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.inverted import IndexIVFFlat
from grilly_ext_memory.index.tuning import plot_sweep, recall_at_k, sweep_nprobe
from grilly_ext_memory.text.encoders import HashingEncoder
from grilly_ext_memory.text.semantic import SemanticSearch

TEXTS = ["Lists are sorted with sort.", "Sockets connect two processes.", "A dict maps keys to values."]


def lengths(texts):
    """An encoder of a user: length and vowels."""
    return np.array([[len(t), sum(c in "aeiou" for c in t), 1.0] for t in texts])


def test_what_was_added_is_found_and_filtered(tmp_path):
    with SemanticSearch(tmp_path) as search:
        search.add(TEXTS, "a", [{"n": i} for i in range(3)])
        search.add(["Sorting lists again."], "b", [{"n": 9}])
        best = search.query("how to sort a list", 2)
        assert [r.document.text for r in best] == [TEXTS[0], "Sorting lists again."]
        assert best[0].score >= best[1].score
        assert [r.document.metadata["n"] for r in search.query("sort", 5, where={"n": [1, 9]})] == [9, 1]
        assert [r.document.source for r in search.query("sort", 5, source="b")] == ["b"]
        assert search.remove("a") == 3 and len(search) == 1
    with SemanticSearch(tmp_path) as search:
        assert [r.document.text for r in search.query("anything", 5)] == ["Sorting lists again."]


def test_a_process_that_died_between_documents_and_vectors_is_made_whole(tmp_path):
    with SemanticSearch(tmp_path) as search:
        search.add(TEXTS[:1])
        search.store.add(TEXTS[1:2])  # a document without a vector
        search._vectors.add_with_ids(search.encoder(["lost"]), [77])  # a vector without a document
    with SemanticSearch(tmp_path) as search:
        assert search._vectors.index.ids.tolist() == search.store.ids() == [1, 2]
        assert search.query("sockets", 1)[0].document.text == TEXTS[1]


def test_encoders_of_the_user(tmp_path):
    with SemanticSearch(tmp_path, lengths) as search:
        search.add(TEXTS)
    with pytest.raises(ValueError, match="pass encoder="):
        SemanticSearch(tmp_path)
    with pytest.raises(ValueError, match="vectors of width 3; the encoder makes 64"):
        SemanticSearch(tmp_path, HashingEncoder(64))
    with SemanticSearch(tmp_path, lengths) as search:
        assert len(search.query("x", 9)) == 3
    (tmp_path / "search.json").write_text("[]")
    with pytest.raises(FileFormatError, match="not a search folder"):
        SemanticSearch(tmp_path)


def test_the_command_line_builds_replaces_and_answers(tmp_path):
    run, files, index = CliRunner().invoke, tmp_path / "files", str(tmp_path / "index")
    files.mkdir()
    (files / "one.txt").write_text("Lists are sorted with sort.\n\nSockets connect two processes.")
    (files / "picture.bin").write_bytes(b"\xff\xfe\x00")
    for _ in range(2):
        made = run(app, ["search", "build", str(files), "--index", index, "--size", "30"])
        assert made.exit_code == 0, made.output
        assert "2 passages of 1 file in" in made.output
    found = run(app, ["search", "query", "sort a list", "--index", index, "-k", "1"])
    assert found.exit_code == 0 and "one.txt" in found.output and "sorted" in found.output
    missing = run(app, ["search", "query", "x", "--index", str(tmp_path / "none")])
    assert missing.exit_code == 1 and "grilly search build" in missing.output
    assert run(app, ["search", "build", str(tmp_path / "none"), "--index", index]).exit_code == 1
    assert run(app, ["search", "build", str(files), "--index", index, "--pattern", "*.md"]).exit_code == 1


def test_recall_and_sweeps(tmp_path):
    assert recall_at_k([[1, 2, -1]], [[1, 3, -1]]) == 0.5
    assert recall_at_k([[-1]], [[-1]]) == 1.0
    with pytest.raises(ValueError, match="same queries"):
        recall_at_k([[1]], [[1], [2]])
    x = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
    index, exact = IndexIVFFlat(8, 12).train(x), IndexFlat(8)
    index.add(x)
    exact.add(x)
    found = sweep_nprobe(index, x[:40], 5, exact=exact, repeats=1)
    assert [s.nprobe for s in found] == [1, 2, 4, 8, 12]
    recalls = [s.recall for s in found]
    assert recalls == sorted(recalls) and recalls[0] < 1 and recalls[-1] == 1.0
    pytest.importorskip("matplotlib")
    assert plot_sweep(found, tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_answers_and_survives(tmp_path, capsys):
    pytest.importorskip("sklearn")
    assert demo.main(["--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "all as added" in shown and "recall@10 1.000" in shown
    assert (tmp_path / "recall.png").stat().st_size > 5000
