"""A backend over a bytearray: six methods and three kernels are level 0; the rest falls back to the CPU, counted.

Run it: it registers itself, passes the conformance suite of level 0, and trains a small network.
"""

import operator
import struct
from dataclasses import dataclass

import grilly_core as grilly
from grilly_core import events
from grilly_core.plugins import loader


@dataclass(frozen=True)
class ToyDevice:
    """What the backend lists without opening anything."""

    name: str = "a bytearray"
    kind: str = "toy"
    memory: int = 1 << 30


class ToyRuntime:
    """The six methods. A handle is a bytearray; nothing here knows NumPy."""

    def alloc(self, nbytes):
        """Return memory."""
        return bytearray(nbytes)

    def free(self, handle):
        """Give it back: the garbage collector does."""

    def copy_in(self, handle, offset, data):
        """Write host bytes."""
        handle[offset : offset + len(data)] = data

    def copy_out(self, handle, offset, out):
        """Read into host memory."""
        out[:] = memoryview(handle)[offset : offset + len(out)]

    def copy(self, dst, dst_offset, src, src_offset, nbytes):
        """Copy on the device."""
        dst[dst_offset : dst_offset + nbytes] = src[src_offset : src_offset + nbytes]

    def synchronize(self):
        """Nothing runs in the background."""

    def register_kernels(self, kernels):
        """Declare three kernels; the dtype is data beside each."""
        for name, function in (("add", operator.add), ("mul", operator.mul), ("neg", operator.neg)):
            kernels.add(name, elementwise(function), dtypes={"f32"})


def positions(view):
    """Yield the byte position of every element of a view, in C order, whatever its strides."""
    places = [view.offset]
    for size, stride in zip(view.shape, view.strides, strict=True):
        places = [p + i * stride for p in places for i in range(size)]
    return [4 * p for p in places]


def rounded(value):
    """Round to float32; an overflow is infinite."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def elementwise(function):
    """Make a kernel of a Python operator."""

    def kernel(stream, outs, ins, attrs):
        operands = [[struct.unpack_from("<f", v.buffer.handle, p)[0] for p in positions(v)] for v in ins]
        for place, values in zip(positions(outs[0]), zip(*operands, strict=True), strict=True):
            struct.pack_into("<f", outs[0].buffer.handle, place, rounded(function(*values)))

    return kernel


class ToyBackend:
    """What an entry point of the group ``grilly.backends.v1`` would name."""

    name = "toy"
    grilly_abi = 1

    def devices(self):
        """List the one device."""
        return [ToyDevice()]

    def open(self, index):
        """Open it."""
        return ToyRuntime()


def train_digits(device):
    """Train the demo's network for a few steps on the device, and return the first and last loss."""
    from grilly.demos.digits import build_model, load_digits

    (images, labels), _ = load_digits(seed=0)
    grilly.manual_seed(0)
    model = build_model().to(device)
    optimizer = grilly.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(4):
        x, y = grilly.asarray(images[:32], device=device), grilly.asarray(labels[:32], device=device)
        optimizer.zero_grad()
        loss = grilly.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def main():
    """Register, conform, train, count."""
    from grilly_testkit.conformance import run

    loader.add_backend(ToyBackend())
    assert run("toy:0", level=0, report=None) == 0
    events.reset_stats()
    with grilly.fallback("allow"):
        first, last = train_digits("toy:0")
    stats = events.stats()
    moved = sum(n for key, n in stats.items() if key[0] == "bytes")
    fallbacks = sum(n for key, n in stats.items() if key[0] == "fallbacks")
    print(
        f"demo model on toy:0: loss {first:.3f} → {last:.3f}; {fallbacks} fallbacks moved {moved / 1e6:.1f} MB"
    )
    assert last < first and fallbacks > 0


if __name__ == "__main__":
    main()
