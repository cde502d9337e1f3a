"""How little is known of a network."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.network_kernels import network_kernels
from latcast.devices.network_novelty import NOISE_VARIANCE, kernel_shares
from latcast.predictors.network_terms import NetworkTerms
from latcast.spaces.catalogue import SPACES
from tests.devices.made_up_phones import UNSEEN, fitted, networks


@pytest.fixture(scope="module")
def terms() -> NetworkTerms:
    """A known network, an unknown one of the same space, and one of another space."""
    chosen = [networks()[1], networks()[UNSEEN], *SPACES.get("densenet").sample(1, seed=0)]
    return NetworkTerms.of([network_kernels(each, fitted().model.novelty.reference.rules) for each in chosen])


def test_shares_of_a_networks_kernels_add_up_to_it_without_its_overhead(terms: NetworkTerms) -> None:
    reference = fitted().model.novelty.reference

    shares = sum(found.shares.sum(axis=1) for found in kernel_shares(reference, terms).values())

    overhead = reference.overhead_ms[0] / np.exp(reference.log_ms(terms)[0])
    assert shares[:2] == pytest.approx((1 - overhead)[:2], rel=1e-6)
    # Dense networks pool as none of the known ones does: of that type of kernel nothing can be said.
    assert shares[2] < (1 - overhead)[2]


def test_known_networks_leave_little_open_and_strange_ones_much(terms: NetworkTerms) -> None:
    known, unseen, strange = fitted().model.novelty.left_open(terms, np.array([], dtype=int))[0]

    assert known < 2 * NOISE_VARIANCE
    assert known <= unseen < strange


def test_a_network_shares_all_that_is_open_with_itself(terms: NetworkTerms) -> None:
    variance, covariance = fitted().model.novelty.left_open(terms, np.array([0, 1, 2]))

    assert np.diag(covariance) == pytest.approx(variance)
    assert covariance == pytest.approx(covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
