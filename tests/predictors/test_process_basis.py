from __future__ import annotations

import numpy as np
import pytest

from latcast.predictors.network_features import TERM_NAMES, NetworkFeatures, network_place
from latcast.predictors.process_basis import ProcessBasis
from tests.devices.made_up_devices import features

NOTHING = np.zeros(len(TERM_NAMES))


@pytest.fixture(scope="module")
def basis() -> ProcessBasis:
    """Of twenty networks, every one of which is a point."""
    return ProcessBasis.of(features(), NOTHING, 20, 40)


def test_a_basis_survives_arrays(basis: ProcessBasis) -> None:
    again = ProcessBasis.from_arrays(basis.arrays())

    assert again.size == basis.size
    for mine, theirs in zip(again.of_networks(features()), basis.of_networks(features()), strict=True):
        assert mine == pytest.approx(theirs)


def test_a_point_s_own_network_is_not_new(basis: ProcessBasis) -> None:
    _, network_open, kernel_open = basis.of_networks(features())

    assert network_open == pytest.approx(np.zeros(20), abs=0.01)
    assert kernel_open.max() < 0.3


def test_a_network_far_from_all_points_is_new() -> None:
    near = ProcessBasis.of(features().rows(np.array([1, 2])), NOTHING, 2, 40)
    far = np.abs(network_place(features().sums) - near.places[0]).sum(axis=1).argmax()

    _, network_open, _ = near.of_networks(features())

    assert network_open[[1, 2]] == pytest.approx([0.0, 0.0], abs=0.01)
    assert network_open[far] > 0.5


def test_similar_networks_have_similar_rows(basis: ProcessBasis) -> None:
    # SqueezeNet 1.0 and 1.1 against VGG-like AlexNet; their inner product is their covariance.
    rows, _, _ = basis.of_networks(features())
    places = rows[:, : basis.network_size]

    assert places[1] @ places[2] > places[1] @ places[0]
    assert (places**2).sum(axis=1) == pytest.approx(np.ones(20), abs=0.01)


def test_kernels_of_another_group_have_nothing_in_common(basis: ProcessBasis) -> None:
    sizes = np.full((2, 5), 4.0)
    groups = np.unique(basis.group)[:2]

    found, _ = basis.of_kernels(groups, sizes)

    assert found[0] @ found[1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", ["basis.place_root", "basis.coefficients", "basis.sizes"])
def test_arrays_that_do_not_belong_together_are_refused(basis: ProcessBasis, name: str) -> None:
    arrays = basis.arrays()

    with pytest.raises(ValueError, match="found a basis of shapes"):
        ProcessBasis.from_arrays(arrays | {name: arrays[name][:-1]})


def test_the_kernels_part_of_one_network_adds_up(basis: ProcessBasis) -> None:
    sums = basis.kernel_sums(features())

    whole = basis.of_sums(features().sums, sums)

    assert [part == pytest.approx(other) for part, other in zip(whole, basis.of_networks(features()), strict=True)] == [True] * 3
    assert isinstance(features(), NetworkFeatures)
