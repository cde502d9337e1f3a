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


@pytest.mark.parametrize("truth", [1, 2, 3, 4])
def test_into_which_inputs_kernel_a_join_is_fused(truth: int) -> None:
    connections = found(FusionRules("made-up", pairs={"conv": frozenset({"add"})}, multi_inbound=truth))

    # No timing decides between two inputs that could both take the join.
    assert connections.multi_inbound == truth or truth == 3
    assert ("undecided" in connections.reasons["multi_inbound"]) == (truth >= 3)
    assert ("conv", "add") in connections.joined
    cases = connections.to_json(LATENCY)["cases"]
    assert cases["conv, add, first input"]["fused"] is (truth != 2)
    assert cases["conv, add, last input"]["fused"] is (truth != 1)


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
