"""Operators with several inputs, results with several readers."""

from __future__ import annotations

import pytest

from latcast.fusion.connections import DEFAULT_INBOUND, DEFAULT_OUTBOUND, ConnectionRules
from latcast.fusion.detection import Detector
from latcast.fusion.quantities import LATENCY
from latcast.kernels import FusionRules
from tests.fusion.made_up_runtime import MadeUpStopwatch


def found(rules: FusionRules, noise: float = 0.01) -> ConnectionRules:
    stopwatch = MadeUpStopwatch(rules, noise=noise)
    operators = ("conv", "relu", "add")
    return Detector(stopwatch, budget_s=600.0, operators=operators, clock=stopwatch.clock).run().connections


@pytest.mark.parametrize(("truth", "expected"), [(1, 1), (2, 2), (4, 4)])
def test_into_which_inputs_kernel_a_join_is_fused(truth: int, expected: int) -> None:
    rules = FusionRules("made-up", pairs={"conv": frozenset({"add"})}, multi_inbound=truth)

    connections = found(rules)

    assert connections.multi_inbound == expected
    assert ("conv", "add") in connections.joined


def test_no_timing_decides_between_two_inputs_that_could_both_take_the_join() -> None:
    rules = FusionRules("made-up", pairs={"conv": frozenset({"add"})}, multi_inbound=3)

    connections = found(rules)

    assert "undecided" in connections.reasons["multi_inbound"]


@pytest.mark.parametrize("truth", [0, 1, 2])
def test_which_of_several_readers_is_fused(truth: int) -> None:
    rules = FusionRules("made-up", pairs={"conv": frozenset({"relu"})}, multi_outbound=truth)

    connections = found(rules)

    assert connections.multi_outbound == truth
    assert "reader" in connections.reasons["multi_outbound"]


def test_a_runtime_without_fusions_has_the_defaults_of_the_format() -> None:
    connections = found(FusionRules("made-up"))

    assert (connections.multi_inbound, connections.multi_outbound) == (DEFAULT_INBOUND, DEFAULT_OUTBOUND)
    assert "does not matter" in connections.reasons["multi_inbound"]
    assert connections.reasons["multi_outbound"] == "undecided"


def test_every_case_has_its_evidence() -> None:
    rules = FusionRules("made-up", pairs={"conv": frozenset({"add"})}, multi_inbound=1)

    data = found(rules).to_json(LATENCY)

    assert data["cases"]["conv, add, first input"]["fused"] is True
    assert data["cases"]["conv, add, last input"]["fused"] is False
