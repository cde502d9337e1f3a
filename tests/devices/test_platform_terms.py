"""Platforms that run the same kernels, side by side."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.network_kernels import network_kernels
from latcast.devices.platform_terms import learn_platforms
from latcast.errors import TrainingError
from latcast.kernels.rules import load_rules
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.whole_networks import fit_whole_networks
from latcast.records import Platform
from tests.devices.made_up_phones import fitted, networks, phones, true_ms

RULES = load_rules("tflite")
NAMES = ["phone0/tflite-2.10/1large/fp32", "phone1/tflite-2.10/1large/fp32"]


@pytest.fixture(scope="module")
def terms() -> NetworkTerms:
    return NetworkTerms.of([network_kernels(each, RULES) for each in networks()])


def test_platforms_side_by_side_price_as_each_alone(terms: NetworkTerms) -> None:
    latency_ms = np.stack([true_ms(phone, "fp32") for phone in range(2)])
    latency_ms[1, 20:] = np.nan

    found = learn_platforms(NAMES, RULES, terms, latency_ms).log_ms(terms)

    for row, name in enumerate(NAMES):
        measured = np.flatnonzero(~np.isnan(latency_ms[row]))
        alone = fit_whole_networks(terms.only(measured), latency_ms[row, measured], Platform.parse(name))
        coefficients = np.concatenate([alone.coefficients[each] for each in terms.classes])
        estimates = terms.kernel_latency_ms(coefficients) * np.exp(alone.log_factors(terms))
        assert np.exp(found[row]) == pytest.approx(terms.counts @ estimates + alone.overhead_ms, rel=1e-6)


def test_measured_networks_are_priced_as_measured(terms: NetworkTerms) -> None:
    latency_ms = np.stack([true_ms(phone, "fp32") for phone in range(2)])

    found = learn_platforms(NAMES, RULES, terms, latency_ms).log_ms(terms)

    assert np.abs(found - np.log(latency_ms)).mean() < 0.02


def test_some_platforms_are_priced_as_among_all(terms: NetworkTerms) -> None:
    part = fitted().model.parts[0]

    assert part.rows([2]).log_ms(terms)[0] == pytest.approx(part.log_ms(terms)[2])
    assert part.rows([2]).platforms == (part.platforms[2],)


def test_a_platform_with_nothing_measured_is_refused(terms: NetworkTerms) -> None:
    with pytest.raises(TrainingError, match=r"phone1.*no measured network"):
        learn_platforms(NAMES, RULES, terms, np.stack([true_ms(0, "fp32"), np.full(len(networks()), np.nan)]))


def test_made_up_phones_differ(terms: NetworkTerms) -> None:
    """Otherwise the tests that follow would test nothing."""
    relative = np.log(phones().latency_ms)
    relative -= relative.mean(axis=1, keepdims=True)

    assert (relative - relative.mean(axis=0)).std() > 0.05
