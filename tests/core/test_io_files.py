"""Files: what is written comes back, is written whole or not at all, and never runs code."""

from __future__ import annotations

import errno
import json
import math
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import io, nn, optim
from grilly_core.errors import DTypeError, FileFormatError

KINDS = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "float16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("kind", [*KINDS, "complex64"])
def test_every_dtype_comes_back_bit_for_bit(tmp_path, kind):
    x = (np.arange(12).reshape(3, 4) % 2 if kind == "bool" else np.arange(12).reshape(3, 4)).astype(kind)
    io.save_file(
        {"x": grilly.asarray(x, dtype=kind), "0d": grilly.asarray(x[0, 1], dtype=kind)}, tmp_path / "f"
    )
    found = io.load_file(tmp_path / "f")
    assert found["x"].dtype.name == kind and found["0d"].shape == ()
    np.testing.assert_array_equal(found["x"].numpy(), x)


def test_strided_and_empty_tensors(tmp_path):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    tensors = {"t": grilly.asarray(x).T, "flip": x[::-1, ::2], "empty": np.zeros((0, 3), np.float32)}
    io.save_file(tensors, tmp_path / "f")
    found = io.load_file(tmp_path / "f")
    np.testing.assert_array_equal(found["t"].numpy(), x.T)
    np.testing.assert_array_equal(found["flip"].numpy(), x[::-1, ::2])
    assert found["empty"].shape == (0, 3)


def test_other_readers_and_writers_agree(tmp_path):
    other = pytest.importorskip("safetensors.numpy")
    x = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.arange(3, dtype=np.int64),
        "c": np.ones(1, np.uint8),
    }
    io.save_file(x, tmp_path / "ours", metadata={"note": "é"})
    theirs = other.load_file(tmp_path / "ours")
    other.save_file(x, tmp_path / "theirs", metadata={"k": "v"})
    ours = io.load_file(tmp_path / "theirs")
    for name, want in x.items():
        np.testing.assert_array_equal(theirs[name], want)
        np.testing.assert_array_equal(ours[name].numpy(), want)


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    for tensors in ({"x": np.array([None])}, {"x": "text"}, {"x": np.ones(1, np.complex128)}):
        with pytest.raises(DTypeError):
            io.save_file(tensors, tmp_path / "f")
    with pytest.raises(ValueError, match="reserved"):
        io.save_file({"__metadata__": np.ones(1)}, tmp_path / "f")
    assert os.listdir(tmp_path) == []


# -- files that are not what they should be ------------------------------------------------------------------


class Marker:
    def __reduce__(self):
        return os.mkdir, ("marker",)


LOADERS = [io.load_file, io.load_tree, io.load_checkpoint]


@pytest.mark.parametrize("load", LOADERS)
def test_no_code_runs_on_load(tmp_path, monkeypatch, load):
    """IO-01: pickles and object arrays are refused by name, and nothing in them runs."""
    monkeypatch.chdir(tmp_path)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "bad").write_bytes(pickle.dumps(Marker(), protocol))
        with pytest.raises(FileFormatError):
            load(tmp_path / "bad")
    np.save(tmp_path / "bad.npy", np.array([Marker()], object), allow_pickle=True)
    np.savez(tmp_path / "bad.npz", x=np.array([Marker()], object))
    for name in ("bad.npy", "bad.npz"):
        with pytest.raises(FileFormatError):
            load(tmp_path / name)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("load", LOADERS)
def test_a_truncated_file_is_refused_at_every_length(tmp_path, load):
    path = tmp_path / "f"
    io.save_checkpoint(path, nn.Linear(2, 2))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            load(path)


def header(**entries):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 16,
        header(x={"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}) + b"\0" * 4,
        header(x={"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}) + b"\0" * 8,
        header(x={"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}) + b"\0" * 4,
        header(x={"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}) + b"\0" * 4,
        header(x={"dtype": "OBJ", "shape": [1], "data_offsets": [0, 8]}) + b"\0" * 8,
        header(x={"shape": [1]}),
        header(x=3),
        header(x={"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}) + b"\0" * 2,
        header(x={"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}) + b"\0" * 2,
        header(
            x={"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
            y={"dtype": "U8", "shape": [1], "data_offsets": [1, 2]},
        )
        + b"\0" * 2,
        (2).to_bytes(8, "little") + b"[]",
        (14).to_bytes(8, "little") + b'{"a":1, "a":2}',
        (2).to_bytes(8, "little") + b"\xff\xff",
        header(__metadata__={"a": 1}),
    ],
)
def test_damaged_files_say_what_is_wrong(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FileFormatError, match="f: not a safetensors file, or truncated"):
        io.load_file(tmp_path / "f")


def test_foreign_and_newer_checkpoints(tmp_path):
    path = tmp_path / "f"
    io.save_file({"x": np.ones(1)}, path)
    with pytest.raises(FileFormatError, match="no checkpoint"):
        io.load_tree(path)
    io.save_file({}, path, {"grilly": json.dumps({"format": "grilly-checkpoint", "version": 99, "tree": 1})})
    with pytest.raises(FileFormatError, match="version 99"):
        io.load_tree(path)
    io.save_file(
        {},
        path,
        {"grilly": json.dumps({"format": "grilly-checkpoint", "version": 1, "tree": {"$tensor": "x"}})},
    )
    with pytest.raises(FileFormatError, match="damaged"):
        io.load_tree(path)
    io.save_tree([1], path)
    with pytest.raises(FileFormatError, match="no training checkpoint"):
        io.load_checkpoint(path)


# -- whole or not at all -------------------------------------------------------------------------------------

KILLED = """
    import os, signal, sys
    import numpy as np
    from grilly_core import atomic
    from grilly_core.io import save_file

    budget = int(sys.argv[2])
    class Dying:
        def __init__(self, file): self.file = file
        def write(self, data):
            global budget
            data = bytes(data)
            if len(data) >= budget:
                self.file.write(data[:budget]); self.file.flush(); os.kill(os.getpid(), signal.SIGKILL)
            budget -= len(data)
            return self.file.write(data)
        def __getattr__(self, name): return getattr(self.file, name)
        def __enter__(self): return self
        def __exit__(self, *exc): self.file.close()
    fdopen = os.fdopen
    os.fdopen = lambda *a, **k: Dying(fdopen(*a, **k))
    save_file({"x": np.full(1000, 2.0, np.float32)}, sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("after", [1, 100, 3000])
def test_killed_while_saving_keeps_the_old_file(tmp_path, after):
    """IO-02: after kill -9 the old content is there, and the next save does not trip on what is left."""
    path = tmp_path / "weights"
    io.save_file({"x": np.ones(10, np.float32)}, path)
    script = textwrap.dedent(KILLED)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(after)], check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert io.load_file(path)["x"].tolist() == [1.0] * 10
    assert len(os.listdir(tmp_path)) == 2  # the file and what the dead process left
    io.save_file({"x": np.zeros(1, np.float32)}, path)
    assert os.listdir(tmp_path) == ["weights"]
    assert io.load_file(path)["x"].tolist() == [0.0]


def test_a_full_disk_keeps_the_old_file_and_leaves_nothing(tmp_path, monkeypatch):
    """IO-02: an error while writing is raised, the old content stays, no temporary file remains."""
    path = tmp_path / "weights"
    io.save_file({"x": np.ones(1, np.float32)}, path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            io.save_file({"x": np.zeros(1, np.float32)}, path)
    assert os.listdir(tmp_path) == ["weights"] and io.load_file(path)["x"].tolist() == [1.0]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_permissions_and_links_are_kept(tmp_path):
    """IO-02: a replaced file keeps its mode; a link goes on pointing at it."""
    path, link = tmp_path / "weights", tmp_path / "link"
    io.save_file({}, path)
    path.chmod(0o640)
    link.symlink_to(path)
    io.save_file({"x": np.ones(1)}, link)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and link.is_symlink()
    assert list(io.load_file(path)) == ["x"]


def test_a_file_of_a_running_process_is_not_swept_away(tmp_path):
    alive = tmp_path / f".weights.{os.getppid()}-0123abcd.tmp"
    alive.write_bytes(b"")
    io.save_file({}, tmp_path / "weights")
    assert alive.exists()


# -- checkpoints ---------------------------------------------------------------------------------------------


def test_trees_come_back_as_they_were(tmp_path):
    tree = {
        "none": None, "flag": True, "n": 3, "x": 1.5, "text": "é", "nan": math.nan, "inf": -math.inf,
        "list": [1, [2.0]], "tuple": (1, ("a",)), "by index": {0: "zero", 1: {"$tensor": "no tensor"}},
        "t": grilly.ones((2, 2)), "array": np.arange(3),
    }  # fmt: skip
    io.save_tree(tree, tmp_path / "f")
    found = io.load_tree(tmp_path / "f")
    assert math.isnan(found.pop("nan")) and math.isnan(tree.pop("nan"))
    assert found.pop("t").tolist() == [[1.0, 1.0]] * 2 and found.pop("array").tolist() == [0, 1, 2]
    del tree["t"], tree["array"]
    assert found == tree and isinstance(found["tuple"][1], tuple)
    with pytest.raises(TypeError, match=r"a\.0 is set"):
        io.save_tree({"a": [set()]}, tmp_path / "f")


def test_names_that_collide_keep_their_tensors(tmp_path):
    io.save_tree({"a": {"b": grilly.zeros(1)}, "a.b": grilly.ones(1)}, tmp_path / "f")
    found = io.load_tree(tmp_path / "f")
    assert found["a"]["b"].tolist() == [0.0] and found["a.b"].tolist() == [1.0]


def test_a_checkpoint_restores_model_optimiser_and_randomness(tmp_path):
    model = nn.Linear(2, 2)
    opt = optim.AdamW(model.parameters())
    model(grilly.ones((1, 2))).sum().backward()
    opt.step()
    grilly.manual_seed(9)
    path = io.save_checkpoint(
        tmp_path / "run.ckpt", model, opt, epoch=2, loss=math.nan, metadata={"k": [1]}, note="x"
    )
    assert path == tmp_path / "run.ckpt" and os.listdir(tmp_path) == ["run.ckpt"]
    drawn = grilly.random.rand(3).tolist() if hasattr(grilly.random, "rand") else None
    other = nn.Linear(2, 2)
    again = optim.AdamW(other.parameters(), lr=0.5)
    found = io.load_checkpoint(path, other, again, restore_rng=True)
    assert other.weight.tolist() == model.weight.tolist() and again.param_groups[0]["lr"] == 1e-3
    assert again.state[other.weight]["step"].item() == 1.0
    assert (
        found["epoch"] == 2
        and math.isnan(found["loss"])
        and found["metadata"] == {"k": [1]}
        and found["note"] == "x"
    )
    if drawn is not None:
        assert grilly.random.rand(3).tolist() == drawn
    with pytest.raises(FileFormatError, match="no scheduler"):
        io.load_checkpoint(path, scheduler=object())
