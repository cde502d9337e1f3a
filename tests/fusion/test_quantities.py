"""What a network costs: its latency, or its kernels that take time."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from latcast.fusion.decision import TimedBatch
from latcast.fusion.detection import Detection, Detector
from latcast.fusion.quantities import LATENCY, TIMED_KERNELS
from latcast.fusion.test_cases import ChainSetting, pair_case
from latcast.kernels import FusionRules, find_kernels
from latcast.records import ExecutedKernel, Measurement, Reference
from latcast.spaces.catalogue import build
from tests.fusion.made_up_runtime import MadeUpStopwatch

FEW = ("conv", "relu", "tanh", "softmax")

RULES = FusionRules("made-up", pairs={"conv": frozenset({"relu"}), "relu": frozenset({"tanh"})}, patterns=("silu",))


def profiled(*latencies_ms: float) -> Measurement:
    executed = tuple(ExecutedKernel(f"k{place}", "Kind", (), latency) for place, latency in enumerate(latencies_ms))
    return Measurement("local/made-up-1.0/cpu1/fp32", Reference("operator_pairs"), latency_ms=1.0, executed=executed)


def test_kernels_that_took_no_time_do_not_count() -> None:
    assert TIMED_KERNELS.costs(profiled(0.004, 0.0, 0.001)).tolist() == [2.0]


def test_evidence_says_its_unit() -> None:
    assert LATENCY.figures(saved=0.0012) == {"saved_us": 1.2}
    assert TIMED_KERNELS.figures(saved=1.0, own=1.25) == {"saved_kernels": 1.0, "own_kernels": 1.25}


class Profiled(MadeUpStopwatch):
    """Counts kernels; around a softmax, unless it stands beside another or a wall of its kind, the layout changes."""

    def __init__(self, rules: FusionRules) -> None:
        super().__init__(rules)
        self.quantity = TIMED_KERNELS

    def time(self, networks: list[Reference]) -> TimedBatch:  # type: ignore[override]
        self.seconds += 0.05 * len(networks)
        counts = {}
        for reference in networks:
            kernels = find_kernels(build(reference), self.rules)
            plain = [kernel.operators[0] == "Softmax" for kernel in kernels]
            changes = sum(a != b for a, b in pairwise(plain))
            counts[reference.key] = np.array([float(sum(not kernel.free for kernel in kernels) + changes)])
        return TimedBatch(counts)


@pytest.fixture(scope="module")
def found() -> Detection:
    stopwatch = Profiled(RULES)
    return Detector(stopwatch, budget_s=600.0, operators=FEW, clock=stopwatch.clock).run()


def test_counted_kernels_tell_the_rules_however_long_they_take(found: Detection) -> None:
    assert found.rules().pairs == RULES.pairs
    assert set(found.pairs) == set(product(FEW, FEW))
    assert found.rules().patterns == ("silu",)


def test_changes_of_layout_that_neighbours_share_are_not_fusions(found: Detection) -> None:
    # Between poolings a softmax costs three kernels, two softmaxes four: the two in the middle are saved, and none is fused.
    pair = found.pairs["softmax", "softmax"]

    assert pair.fused is not True
    assert found.evidence()["by"] == "profile"
    assert found.evidence()["pairs"]["conv relu"]["saved_kernels"] == pytest.approx(1.0)


def test_a_pair_fused_in_the_layout_that_suits_it_is_fused() -> None:
    """Between PReLUs a convolution needs two changes of layout, and takes no addition in."""

    class InLayouts(Profiled):
        def time(self, networks: list[Reference]) -> TimedBatch:  # type: ignore[override]
            counts = dict(super().time(networks).costs)
            for reference in networks:
                chain, blocks = reference.parameters["chain"], reference.parameters["blocks"]
                if reference.parameters["wall"] == "p_relu" and "conv" in chain:
                    counts[reference.key] = counts[reference.key] + blocks * (2 + (chain[:2] == ["conv", "add"]))
            return TimedBatch(counts)

        def remembered(self) -> list[TimedBatch]:
            """An earlier call timed the pair between PReLUs as well as between poolings."""
            settings = [ChainSetting(wall=wall, size=64, blocks=4) for wall in ("p_relu", "average_pool")]
            return [self.time(list(pair_case("conv", "add", setting).networks)) for setting in settings]

    stopwatch = InLayouts(FusionRules("made-up", pairs={"conv": frozenset({"add"})}))
    found = Detector(stopwatch, budget_s=600.0, operators=("conv", "add"), clock=stopwatch.clock).run()

    assert found.pairs["conv", "add"].fused is True
