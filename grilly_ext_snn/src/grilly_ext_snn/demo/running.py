"""The demo from its arguments to its last line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import grilly_core as grilly
from grilly_core import io
from grilly_core.errors import MissingPluginError
from grilly_ext_snn import plots
from grilly_ext_snn.demo import supervised
from grilly_ext_snn.demo.digits import Digits, load_digits
from grilly_ext_snn.demo.unsupervised import Competition, votes
from grilly_ext_snn.functional.encoding import rate_encode
from grilly_ext_snn.functional.losses import accuracy_rate
from grilly_ext_snn.functional.statistics import FiringRates, firing_rate_statistics
from grilly_ext_snn.nn.monitor import Monitor

__all__ = ["run"]

#: Layers of `SpikingNet` by the names that the table shows.
NAMES = {"layers.1": "hidden", "layers.3": "output"}


def run(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments and do everything."""
    options = _parser().parse_args(arguments)
    grilly.set_default_device(options.device)
    grilly.manual_seed(options.seed)
    start = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    train_set, test_set = load_digits(options.seed)
    drawn = _plots_work()
    print(f"a spiking network of 64-128-10 neurons, {supervised.STEPS} steps for an image")
    net, _ = supervised.train(train_set, test_set, options.epochs, options.seed)
    written = [io.save_file(net.state_dict(), options.out / "snn.safetensors")]
    spikes, share = _evaluate(net, test_set)
    print(f"\ntest accuracy {share:.2%} ({round(share * len(test_set.labels))} of {len(test_set.labels)})")
    print(f"\na layer of {options.neurons} neurons that learns by spike timing, without labels")
    layer = Competition(64, options.neurons)
    layer.fit(train_set.images, options.stdp_epochs, options.seed)
    names, share = votes(layer, train_set, test_set)
    print(f"each neuron named after the digit it fires most for, their votes are right for {share:.2%}")
    spikes["STDP"] = layer.respond(layer.encode(test_set.images)).numpy()
    _table({name: firing_rate_statistics(value) for name, value in spikes.items()})
    if drawn:
        written += _draw(layer, names, spikes, options.out)
    print(f"\ndone in {time.perf_counter() - start:.1f} s on {options.device}")
    print(f"written: {', '.join(str(path) for path in written)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grilly demo snn", description="Train a spiking network, and a layer by spike timing, on digits."
    )
    parser.add_argument("--device", default=str(grilly.default_device()), help="such as cpu or vulkan:0")
    parser.add_argument("--epochs", type=_positive, default=15, help="of the network with labels")
    parser.add_argument("--stdp-epochs", type=_positive, default=4, help="of the layer without labels")
    parser.add_argument("--neurons", type=_positive, default=100, help="of the layer without labels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/snn"), help="folder for the results")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; received {value}")
    return value


def _plots_work() -> bool:
    try:
        plots.new_figure()
    except MissingPluginError as error:
        print(f"no pictures: {error}")
        return False
    return True


def _evaluate(net: supervised.SpikingNet, test_set: Digits) -> tuple[dict[str, np.ndarray], float]:
    """Return the spikes of each layer for the test images, and the accuracy."""
    net.eval()
    with Monitor(net, ["spike"]) as monitor, grilly.no_grad():
        out = net(rate_encode(grilly.asarray(test_set.images), supervised.STEPS))
    share = accuracy_rate(out, test_set.labels)
    return {NAMES[layer]: spikes for layer, spikes in monitor.items("spike")}, share


def _table(found: Mapping[str, FiringRates]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="\nfiring rates on the test images, in spikes per step", title_justify="left", box=None
    )
    for column in ("layer", "neurons", "mean", "lowest", "highest", "dead", "saturated"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for name, s in found.items():
        table.add_row(
            name, str(s.rates.size), f"{s.mean:.3f}", f"{s.low:.3f}", f"{s.high:.3f}", str(len(s.dead)),
            str(len(s.saturated)),
        )  # fmt: skip
    Console().print(table)
    for name, s in found.items():
        for what, which in (("never fire", s.dead), ("fire nearly always", s.saturated)):
            if len(which):
                first = ", ".join(map(str, which[:8])) + (", ..." if len(which) > 8 else "")
                print(f"warning: {len(which)} of {s.rates.size} neurons of {name} {what}: {first}")


def _draw(layer: Competition, names: np.ndarray, spikes: Mapping[str, np.ndarray], out: Path) -> list[Path]:
    fields = plots.plot_receptive_fields(layer.layer.weight, (8, 8), titles=names)
    fields.savefig(out / "receptive_fields.png", dpi=100)
    figure = plots.new_figure(figsize=(8, 7))
    for axes, (name, values) in zip(
        figure.subplots(len(spikes), 1, squeeze=False)[:, 0], spikes.items(), strict=True
    ):
        plots.plot_spike_raster(values, axes)
        axes.set_title(f"{name}, the first test image")
    figure.savefig(out / "raster.png", dpi=100)
    return [out / "receptive_fields.png", out / "raster.png"]
