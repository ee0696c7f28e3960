"""Encoders, passages and the document store of semantic search."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grilly_ext_memory.text.encoders import HashingEncoder, encode, encoder_from
from grilly_ext_memory.text.passages import passages, snippet
from grilly_ext_memory.text.store import DocumentStore


def test_shared_spelling_is_near_and_processes_agree():
    encoder = HashingEncoder(4096)
    a, b, c = encoder(["Sorting lists in Python", "how do I sort a list?", "open a network socket"])
    assert a @ b > a @ c + 0.1
    np.testing.assert_allclose(np.linalg.norm([a, b, c], axis=1), 1, rtol=1e-6)
    assert not encoder(["", "  ?!"]).any()
    code = (
        "from grilly_ext_memory.text.encoders import HashingEncoder as H;"
        "print(H(4096)(['Sorting lists'])[0].tobytes().hex())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert other == encoder(["Sorting lists"])[0].tobytes().hex()


def test_encoders_are_checked_and_made_again():
    made = encoder_from(HashingEncoder(64, (2, 3), 0.5).spec)
    np.testing.assert_array_equal(made(["abc"]), HashingEncoder(64, (2, 3), 0.5)(["abc"]))
    np.testing.assert_allclose(encode(lambda texts: [[3.0, 4.0]] * len(texts), ["x"]), [[0.6, 0.8]])
    with pytest.raises(ValueError, match=r"expected \(2, 3\)"):
        encode(lambda texts: np.ones((2, 4)), ["a", "b"], 3)
    with pytest.raises(ValueError, match="not finite"):
        encode(lambda texts: [[np.nan]], ["a"])
    with pytest.raises(ValueError, match="module:attribute"):
        encoder_from("word2vec")
    with pytest.raises(ValueError, match="n-gram"):
        HashingEncoder(8, (3, 2))


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="ab \n", max_size=120), size=st.integers(1, 30))
def test_passages_keep_every_word_and_the_size(text, size):
    parts = list(passages(text, size))
    assert all(0 < len(part) <= size for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_snippets_show_the_words_asked_for():
    text = "padding " * 100 + "the needle lies here " + "padding " * 100
    shown = snippet(text, "needle here", 60)
    assert "needle lies here" in shown and len(shown) <= 62
    assert snippet("short\ntext", "x") == "short text"


def test_documents_are_kept_found_and_removed(tmp_path):
    path = tmp_path / "documents.sqlite"
    with DocumentStore(path) as store:
        ids = store.add(["a", "b", "c"], "one", [{"n": 1, "lang": "en"}, {"n": 2}, {"n": 1, "lang": "de"}])
        assert store.ids({"n": 1}) == [ids[0], ids[2]]
        assert store.ids({"lang": ["de", "fr"]}) == [ids[2]]
        assert store.ids({"missing": 1}) == [] and store.ids(source="one") == ids
        assert store.remove([ids[2]]) == 1 and len(store) == 2
    with DocumentStore(path) as store:
        (again,) = store.add(["d"])
        assert again > ids[2]  # ids are never used twice
        assert [d.text for d in store] == ["a", "b", "d"] and store.sources() == ["", "one"]
        with pytest.raises(KeyError, match="no document"):
            store.get(ids[2])
        with pytest.raises(ValueError, match="as many"):
            store.add(["x"], metadata=[{}, {}])
        with pytest.raises(ValueError, match="metadata"):
            store.add(["x", "y"], metadata=[{"fine": 1}, {"list": [1]}])
        assert len(store) == 3  # nothing of it was added


def test_a_transaction_that_fails_leaves_nothing():
    store = DocumentStore(":memory:")
    with pytest.raises(RuntimeError), store.transaction():
        store.add(["x"])
        raise RuntimeError
    assert len(store) == 0


def test_foreign_files_are_refused_and_unchanged(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("this is no database, but long enough to be read as one" * 4)
    with pytest.raises(ValueError, match="no file of documents"):
        DocumentStore(text)
    assert text.read_text().startswith("this is no")
    other = tmp_path / "other.sqlite"
    base = sqlite3.connect(other)
    base.execute("CREATE TABLE things (x)")
    base.commit()
    base.close()
    with pytest.raises(ValueError, match="another database"):
        DocumentStore(other)
