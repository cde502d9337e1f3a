import pytest

from benchmarks.phone_transformers import _sums, cnn_platform, figures_table
from benchmarks.phones import transformer_platform
from latcast.graph.builder import GraphBuilder
from latcast.kernels import find_kernels, load_rules
from latcast.records import Platform

Row = dict[str, object]


def _row(platform: str, mape: float, coverage: float, networks: int) -> Row:
    figures = {"networks": networks, "mape": mape, "within_5": 50.0, "within_10": 75.0, "interval_coverage": coverage}
    return {
        "platform": platform, "latcast": figures, "flops": {"mape": 30.0}, "flops_and_memory": {"mape": 20.0},
        "cnns_alone": {"mape": 40.0}, "noise": 0.5,
    }  # fmt: skip


ROWS = [_row("a03s/pytorch-2.0/1large/fp32", 4.0, 100.0, 10), _row("pixel4/pytorch-2.0/1large/fp32", 8.0, 80.0, 30)]


def test_platforms_count_alike_in_a_mean_and_predictions_in_the_coverage() -> None:
    lines = figures_table(ROWS).splitlines()

    assert lines[2] == "| **pytorch cpu fp32 (2)** | 30 | 6.0 | 50 | 75 | 85 | 0.5 | 30 | 20 | 40 |"
    assert [line.split(" | ")[0] for line in lines[3:]] == [f"| {row['platform']}" for row in ROWS]


def test_cnns_ran_at_an_older_version_of_tflite_and_at_the_same_of_pytorch() -> None:
    names = ("s10/tflite-2.15/2large/int8", "s10/pytorch-2.0/2large/int8")

    assert [cnn_platform(Platform.parse(name)).id for name in names] == ["s10/tflite-2.10/2large/int8", names[1]]


def test_a_platform_of_cnns_learns_from_the_transformers_of_the_same_cores() -> None:
    names = ("s10/tflite-2.10/2large/int8", "s10/pytorch-2.0/2large/int8")

    beside = [transformer_platform(Platform.parse(name)) for name in names]

    assert [platform.id for platform in beside] == ["s10/tflite-2.15/2large/int8", names[1]]
    assert [cnn_platform(platform).id for platform in beside] == list(names)


def test_a_network_is_its_flops_elements_weights_kernels_and_one() -> None:
    b = GraphBuilder("one")
    kernels = find_kernels(b.finish(b.linear(b.input((1, 10)), 20)), load_rules("pytorch"))

    assert _sums(kernels).tolist() == pytest.approx([2 * 10 * 20, 10 + 20, 10 * 20, 1, 1])
