"""Event files and frames: round trips, hand-made bytes of each format, and counts by a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grilly_core.errors import ShapeError
from grilly_ext_snn import events as ev


def recorded(seed, count=200, size=(34, 34)):
    rng = np.random.default_rng(seed)
    table = np.stack(
        [rng.integers(0, 90_000, count), rng.integers(0, size[1], count), rng.integers(0, size[0], count),
         rng.integers(0, 2, count)], 1,
    )  # fmt: skip
    return ev.events_from(table, size)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), count=st.integers(0, 60))
def test_files_round_trip(seed, count, tmp_path_factory):
    made = recorded(seed, count)
    path = tmp_path_factory.mktemp("events") / "one.bin"
    ev.write_nmnist(path, made)
    assert path.stat().st_size == 5 * count
    again = ev.read_nmnist(path)
    for name in "txyp":
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))


def test_the_bytes_of_an_n_mnist_event(tmp_path):
    """Orchard et al.: x, y, then one bit of polarity and 23 bits of time; row 240 is an overflow of the clock."""
    path = tmp_path / "a.bin"
    path.write_bytes(bytes([3, 5, 0x80 | 0x01, 0x02, 0x03, 0, 240, 0, 0, 0, 33, 0, 0, 0, 7]))
    made = ev.read_nmnist(path)
    assert made.t.tolist() == [8192 + 7, 0x010203]
    assert made.x.tolist() == [33, 3] and made.y.tolist() == [0, 5] and made.p.tolist() == [0, 1]
    path.write_bytes(b"1234567")
    with pytest.raises(ValueError, match="cut"):
        ev.read_nmnist(path)
    path.write_bytes(bytes([99, 5, 0, 0, 0]))
    with pytest.raises(ValueError, match="outside"):
        ev.read_nmnist(path)


def test_the_bytes_of_an_aedat_event(tmp_path):
    path = tmp_path / "a.aedat"
    address = (17 << 8) | (100 << 1) | 1
    body = np.array([address, 5000, (1 << 8) | (2 << 1), 4000], ">u4").tobytes()
    path.write_bytes(b"#!AER-DAT2.0\r\n# a comment\r\n" + body)
    made = ev.read_aedat(path)
    assert made.t.tolist() == [4000, 5000] and made.x.tolist() == [2, 100]
    assert made.y.tolist() == [1, 17] and made.p.tolist() == [0, 1]
    path.write_bytes(b"#!AER-DAT2.0\r\n" + body[:-1])
    with pytest.raises(ValueError, match="cut"):
        ev.read_aedat(path)
    path.write_bytes(b"#!AER-DAT3.1\r\n" + body)
    with pytest.raises(ValueError, match="AER-DAT2"):
        ev.read_aedat(path)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 99), amount=st.integers(1, 40), by=st.sampled_from(["time", "count"]),
    windows=st.booleans(), binary=st.booleans(),
)  # fmt: skip
def test_frames_count_every_event_once(seed, amount, by, windows, binary):
    made = recorded(seed, 150, (6, 5))
    amount = amount * 3000 if windows and by == "time" else amount
    frames = ev.to_frames(made, **{"window" if windows else "num_steps": amount}, by=by, binary=binary)
    wanted = np.zeros_like(frames)
    span = made.t[-1] - made.t[0] + 1 if by == "time" else len(made)
    for i, (t, x, y, p) in enumerate(zip(made.t, made.x, made.y, made.p, strict=True)):
        at = int(t - made.t[0]) if by == "time" else i
        wanted[at // amount if windows else at * amount // span, p, y, x] += 1
    np.testing.assert_array_equal(frames, np.minimum(wanted, 1) if binary else wanted)
    assert frames.dtype == np.float32


def test_a_bar_moves():
    frames = ev.to_frames(ev.moving_bar((8, 16), 16_000), 16)
    where = [int(frame[1].sum(0).argmax()) for frame in frames]
    assert where == list(range(16))
    left = ev.to_frames(ev.moving_bar((8, 16), 16_000, rightward=False), 16)
    assert int(left[0, 1].sum(0).argmax()) == 15
    assert len(ev.moving_bar((8, 16), noise=0.5)) == pytest.approx(1.5 * len(ev.moving_bar((8, 16))), abs=1)


def test_structured_arrays_and_bad_ones():
    table = np.zeros(2, [("x", "u2"), ("p", "?"), ("t", "i8"), ("y", "u2")])
    table["t"], table["p"] = [9, 4], [True, False]
    made = ev.events_from(table)
    assert made.t.tolist() == [4, 9] and made.p.tolist() == [0, 1] and made.duration == 5
    with pytest.raises(ShapeError, match="fields t, x, y"):
        ev.events_from(table[["t", "x"]])
    with pytest.raises(ShapeError, match=r"\(N, 4\)"):
        ev.events_from(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="polarities"):
        ev.events_from(np.array([[0, 0, 0, 7]]))
    with pytest.raises(ValueError, match="outside"):
        ev.events_from(np.array([[0, 5, 0, 1]]), (4, 4))
    empty = ev.events_from(np.zeros((0, 4)))
    assert ev.to_frames(empty, 3).sum() == 0 and empty.duration == 0
    with pytest.raises(ValueError, match="either"):
        ev.to_frames(made)
    with pytest.raises(ValueError, match="positive integer"):
        ev.to_frames(made, 0)
    with pytest.raises(ValueError, match="by is"):
        ev.to_frames(made, 2, by="frames")


def test_times_beyond_the_format_leave_no_file(tmp_path):
    with pytest.raises(ValueError, match="the format holds"):
        ev.write_nmnist(tmp_path / "a.bin", ev.events_from(np.array([[1 << 23, 0, 0, 1]])))
    assert not list(tmp_path.iterdir())
