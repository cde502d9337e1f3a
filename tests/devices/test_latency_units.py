"""Latencies that are no milliseconds are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.latency_units import unit_mismatch
from latcast.records import Reference
from latcast.spaces.catalogue import model
from tests.devices.made_up_devices import fitted, networks, platforms, true_ms

KNOWN = fitted()

NEW = platforms()[0].name


def latencies(row: int, scale: float = 1.0, count: int = 5) -> dict[Reference, float]:
    """Of networks on a platform."""
    return {network: scale * float(value) for network, value in list(zip(networks(), true_ms()[row], strict=True))[:count]}


@pytest.mark.parametrize("row", [0, 1, 12])
def test_a_phone_is_believed_in_milliseconds_and_doubted_in_seconds_and_microseconds(row: int) -> None:
    assert unit_mismatch(KNOWN, NEW, latencies(row)) is None
    in_seconds, in_microseconds = (unit_mismatch(KNOWN, NEW, latencies(row, scale)) for scale in (1e-3, 1e3))
    assert in_seconds is not None
    assert in_seconds.unit == "s"
    assert in_microseconds is not None
    assert in_microseconds.unit == "us"


def test_the_factor_is_named() -> None:
    found = unit_mismatch(KNOWN, NEW, latencies(0, 1e-3))

    assert found is not None
    assert found.times < 0.01
    assert str(found) == (
        f"{1 / found.times:,.0f} times below those of the typical known device, as seconds taken for milliseconds would be"
    )


def test_one_outlier_of_three_does_not_question_the_unit() -> None:
    few = latencies(0, count=3)
    few[next(iter(few))] *= 1e-3

    assert unit_mismatch(KNOWN, NEW, few) is None


def test_networks_that_no_device_ran_are_compared_by_their_kernels() -> None:
    typical = float(np.median(true_ms()))

    assert unit_mismatch(KNOWN, NEW, {model("vgg11"): 4 * typical}) is None
    found = unit_mismatch(KNOWN, NEW, {model("vgg11"): 4e-3 * typical})
    assert found is not None
    assert found.unit == "s"


def test_an_unknown_kind_of_unit_is_not_questioned() -> None:
    assert unit_mismatch(KNOWN, "a/magic-1.0/abacus/fp32", latencies(0, 1e-3)) is None


@pytest.mark.parametrize("reference", [Reference("iiswc20", {"name": "a"}), Reference("file", {"path": "/nosuch.onnx"})])
def test_networks_that_cannot_be_built_are_not_questioned(reference: Reference) -> None:
    assert unit_mismatch(KNOWN, NEW, {reference: 1e-6}) is None
