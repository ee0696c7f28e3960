"""Place, grid and time cells and the theta-gamma code against their formulas in float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_snn.functional import cells
from grilly_ext_snn.nn.cells import GridCell, PlaceCell, ThetaGammaEncoder, TimeCell

RNG = np.random.default_rng(0)


def test_place_cells_are_gaussians():
    position, centers = RNG.random((4, 3)), RNG.random((6, 3))
    apart = ((position[:, None] - centers) ** 2).sum(-1)
    wanted = 1.0 + 7.0 * np.exp(-apart / (2 * 0.3**2))
    ours = cells.place_cell(position, centers, 0.3, 8.0, 1.0)
    np.testing.assert_allclose(ours.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(
        cells.place_cell(position[1], centers, 0.3, 8.0, 1.0).numpy(), wanted[1], rtol=1e-5
    )
    with pytest.raises(ValueError, match="field_width"):
        cells.place_cell(position, centers, 0.0)
    with pytest.raises(ShapeError, match="one d"):
        cells.place_cell(position[:, :2], centers)


def test_grid_cells_repeat_on_a_hexagonal_lattice():
    """A field lies at the origin, its neighbours at `spacing` in six directions, and nothing fires in between."""
    spacing, turned = 0.7, 0.3
    angles = turned + np.pi / 6 + np.arange(6) * np.pi / 3
    around = spacing * np.stack([np.cos(angles), np.sin(angles)], 1)
    rates = cells.grid_cell(np.concatenate([[[0, 0]], around]), [spacing], turned).numpy()
    np.testing.assert_allclose(rates, 25.0, rtol=1e-4)
    assert cells.grid_cell(around / 2, [spacing], turned).numpy().max() < 5.0
    everywhere = cells.grid_cell(RNG.random((2000, 2)) * 4, [spacing], turned).numpy()
    assert everywhere.max() <= 25.0 * (1 + 1e-5) and everywhere.min() >= 0.0
    moved = cells.grid_cell([0.2, 0.1], [spacing], turned, [[0.2, 0.1]])
    np.testing.assert_allclose(moved.numpy(), 25.0, rtol=1e-5)


def test_time_cells_in_both_modes():
    preferred = np.array([1.0, 2.0, 4.0])
    rates, membrane = cells.time_cell([1.5, 2.0], preferred, 0.5)
    apart = np.array([[1.5], [2.0]]) - preferred
    np.testing.assert_allclose(rates.numpy(), 0.1 + 14.9 * np.exp(-(apart**2) / 0.5), rtol=1e-5)
    np.testing.assert_allclose(membrane.numpy(), 0.1 * rates.numpy(), rtol=1e-6)
    dynamic, _ = cells.time_cell([1.5, 2.0], preferred, 0.5, mode="dynamic")
    wanted = np.where(apart < 0, np.exp(3 * apart / 0.5), np.exp(-5 * np.maximum(apart, 0) / 0.5))
    np.testing.assert_allclose(dynamic.numpy(), 0.1 + 14.9 * wanted, rtol=1e-5)
    wide, _ = cells.time_cell(4.5, preferred, 0.5, scalar=True)
    np.testing.assert_allclose(wide[2].item(), 0.1 + 14.9 * np.exp(-0.25 / (2 * 2.0**2)), rtol=1e-5)
    with pytest.raises(ValueError, match="mode"):
        cells.time_cell(1.0, preferred, mode="ramp")
    with pytest.raises(ValueError, match="positive"):
        cells.time_cell(1.0, preferred, 0.0)


def test_theta_gamma_in_both_couplings():
    t, theta_phase, gamma_phase = 0.123, np.arange(4) * np.pi / 2, np.arange(5) * 2 * np.pi / 5
    theta = 2 * np.pi * 8 * t + theta_phase
    gamma = np.sin(2 * np.pi * 40 * t + gamma_phase)
    code = cells.theta_gamma_encoding(grilly.asarray(t, dtype="float64"), 4, 5)
    np.testing.assert_allclose(code.numpy(), (0.5 * np.outer(np.sin(theta), gamma)).ravel(), atol=1e-12)
    coupled = cells.theta_gamma_encoding(grilly.asarray([t], dtype="float64"), 4, 5, coupling="pac")
    wanted = np.outer(0.5 + 0.5 * 0.5 * (1 + np.cos(theta)), gamma).ravel()
    np.testing.assert_allclose(coupled.numpy()[0], wanted, atol=1e-12)
    assert len(np.unique(code.numpy().round(9))) > 10  # no phase stands for two
    with pytest.raises(ValueError, match="coupling"):
        cells.theta_gamma_encoding(t, coupling="none")


def test_modules_keep_their_drawn_places_and_state():
    a, b = (PlaceCell(7, bounds=(-2.0, 2.0), rng=grilly.Generator(3)) for _ in range(2))
    np.testing.assert_array_equal(a.field_centers.numpy(), b.field_centers.numpy())
    assert a.field_centers.numpy().min() < 0 and "field_centers" in a.state_dict()
    assert GridCell(4, 0.5, rng=grilly.Generator(1))([[0.0, 0.0]]).shape == (1, 4)
    assert ThetaGammaEncoder()(0.5).shape == (320,)
    cell = TimeCell(3, duration=3.0)
    first = cell(1.0)
    np.testing.assert_allclose(cell.membrane.numpy(), 0.1 * first.numpy(), rtol=1e-6)
    second = cell(2.0)
    np.testing.assert_allclose(cell.membrane.numpy(), 0.09 * first.numpy() + 0.1 * second.numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="reset"):
        cell([1.0, 2.0])
    cell.reset()
    assert cell([1.0, 2.0]).shape == (2, 3)
    with pytest.raises(ValueError, match="spacing"):
        GridCell(2, -1.0)


def test_rates_differentiate_by_position():
    position = grilly.tensor([0.3, 0.1], requires_grad=True)
    PlaceCell(5, rng=grilly.Generator(0))(position).sum().backward()
    assert np.isfinite(position.grad.numpy()).all() and (position.grad.numpy() != 0).all()
