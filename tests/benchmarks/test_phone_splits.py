from dataclasses import replace

import numpy as np
import pytest

from benchmarks.phone_splits import HELD_OUT, METRICS, SplitTrial, by_platform, compute, splits_table, summary
from latcast.datasets.splits import by_group, by_network
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import platform_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import term_values
from latcast.predictors.samples import NetworkSample, TrainingData
from latcast.records import Platform
from latcast.spaces import build
from tests.devices.made_up_devices import networks
from tests.predictors.made_up_platform import TRUTH

Row = dict[str, object]


def _row(platform: str, seed: int, mape: float, coverage: float | None = None, networks: int = 10) -> Row:
    figures = dict.fromkeys(METRICS, 1.0) | {"mape": mape}
    return {
        "platform": platform, "held_out": "network", "seed": seed, "networks": networks, "interval_coverage": coverage, **figures,
    }  # fmt: skip


ROWS = [
    _row("pixel4/tflite-2.10/gpu/fp16", 0, 2.0, coverage=100.0, networks=10),
    _row("s10/tflite-2.10/gpu/fp16", 0, 4.0, coverage=80.0, networks=30),
    _row("pixel4/tflite-2.10/gpu/fp16", 1, 5.0),
    _row("s10/tflite-2.10/gpu/fp16", 1, 9.0),
]


def test_platforms_are_averaged_within_a_split_and_splits_are_what_spreads() -> None:
    (found,) = summary(ROWS)

    assert (found["group"], found["platforms"], found["seeds"]) == ("tflite gpu fp16", 2, 2)
    assert found["mape"] == pytest.approx(5.0)  # of 3 and 7
    assert found["mape_spread"] == pytest.approx(8**0.5)
    assert found["rmspe_spread"] == 0.0


def test_the_interval_coverage_counts_each_prediction_once() -> None:
    (found,) = summary(ROWS)

    assert found["interval_coverage"] == pytest.approx(85.0)  # 10 of 10 and 24 of 30
    assert found["interval_predictions"] == 40


def test_one_split_has_no_spread_and_without_intervals_there_is_no_coverage() -> None:
    (found,) = summary([_row("pixel4/tflite-2.10/2large/int8", 0, 2.0)])

    assert found["mape_spread"] is None
    assert found["interval_coverage"] is None
    assert splits_table([found]).splitlines()[-1] == "| network | tflite cpu int8 (1) | 2.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1.000 | - |"


def test_each_platform_has_the_mean_of_its_splits() -> None:
    rows = by_platform(ROWS)

    assert [(row["platform"], row["seeds"], row["mape"]) for row in rows] == [
        ("pixel4/tflite-2.10/gpu/fp16", 2, 3.5), ("s10/tflite-2.10/gpu/fp16", 2, 6.5),
    ]  # fmt: skip


PHONE = "pixel4/tflite-2.10/1large/fp32"


@pytest.fixture(scope="module")
def data() -> TrainingData:
    """Twenty networks that take what their kernels' terms say."""
    rules = platform_rules(Platform.parse(PHONE))
    samples = []
    for reference in networks():
        kernels = find_kernels(build(reference), rules)
        table = KernelTable.of([kernels])
        each_ms = [term_values(kernel_type(name), rows) @ TRUTH for name, rows in table.configurations.items()]
        samples.append(NetworkSample(reference, kernels, float(np.concatenate(each_ms)[table.kernel].sum())))
    return TrainingData(networks=tuple(samples))


@pytest.mark.parametrize("held_out", HELD_OUT)
def test_a_split_is_judged_on_networks_that_it_has_not_learned_from(data: TrainingData, held_out: str) -> None:
    """The tested networks take ten and thirty times as long as what is learned says: predicted is a tenth, and a thirtieth."""
    lineages = {sample.reference.name: sample.lineage for sample in data.networks}
    tested = (by_network(lineages, 1) if held_out == "network" else by_group(lineages, 1)).test

    def part_predicted(times: float) -> float:
        slower = (
            replace(sample, latency_ms=sample.latency_ms * (times if sample.reference.name in tested else 1))
            for sample in data.networks
        )
        figures = compute(SplitTrial(PHONE, held_out, 1, False), replace(data, networks=tuple(slower)))
        assert figures["networks"] == len(tested)
        return 100 - float(figures["mape"])

    tenth = part_predicted(10.0)

    assert 3 < tenth < 30
    assert part_predicted(30.0) == pytest.approx(tenth / 3, rel=1e-6)
