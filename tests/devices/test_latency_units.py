"""Latencies that are no milliseconds are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.datasets.splits import device_of
from latcast.devices.latency_units import unit_mismatch
from latcast.devices.shared_terms_file import load_shared_terms
from latcast.records import Reference
from latcast.spaces.catalogue import model

KNOWN = load_shared_terms()

S10 = "s10/tflite-2.10/1large/fp32"


def latencies(platform: str, scale: float = 1.0, count: int = 10) -> dict[Reference, float]:
    """Of known networks on a known platform."""
    row = np.exp(KNOWN.log_ms[KNOWN.platforms.index(platform)])
    return {network: scale * float(value) for network, value in list(zip(KNOWN.networks, row, strict=True))[:count]}


def test_every_known_phone_left_out_is_believed_in_milliseconds_and_doubted_in_seconds_and_microseconds() -> None:
    for platform in KNOWN.platforms:
        others = KNOWN.without_devices({device_of(platform)})

        assert unit_mismatch(others, platform, latencies(platform)) is None
        in_seconds = unit_mismatch(others, platform, latencies(platform, 1e-3))
        in_microseconds = unit_mismatch(others, platform, latencies(platform, 1e3))
        assert in_seconds is not None
        assert in_seconds.unit == "s"
        assert in_microseconds is not None
        assert in_microseconds.unit == "us"


def test_the_factor_is_named() -> None:
    half_a_second = {network: 5e-4 * value for network, value in _typical().items()}

    found = unit_mismatch(KNOWN, S10, half_a_second)

    assert found is not None
    assert found.times == pytest.approx(5e-4)
    assert str(found) == "2,000 times below those of the typical known device, as seconds taken for milliseconds would be"


def _typical() -> dict[Reference, float]:
    on_cpu = [index for index, name in enumerate(KNOWN.platforms) if "/gpu" not in name]
    values = np.exp(np.median(KNOWN.log_ms[on_cpu], axis=0))
    return {network: float(value) for network, value in zip(KNOWN.networks, values, strict=True)}


def test_one_odd_network_of_three_is_no_odd_unit() -> None:
    few = latencies(S10, count=3)
    few[next(iter(few))] *= 1e-3

    assert unit_mismatch(KNOWN, S10, few) is None


def test_networks_that_no_phone_ran_are_compared_by_their_kernels() -> None:
    assert unit_mismatch(KNOWN, S10, {model("squeezenet1_1"): 20.0}) is None
    found = unit_mismatch(KNOWN, S10, {model("squeezenet1_1"): 0.02})
    assert found is not None
    assert found.unit == "s"


@pytest.mark.parametrize("reference", [Reference("iiswc20", {"name": "a"}), Reference("file", {"path": "/nosuch.onnx"})])
def test_networks_that_cannot_be_built_say_nothing(reference: Reference) -> None:
    assert unit_mismatch(KNOWN, S10, {reference: 1e-6}) is None
