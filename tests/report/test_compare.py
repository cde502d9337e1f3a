"""Comparisons of two networks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from latcast.drawing import plot
from latcast.errors import LatcastError
from latcast.forecast import predict
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.platforms import load
from latcast.predictors.intervals import Interval
from latcast.predictors.joint_platforms import JointPlatforms
from latcast.report.compare import compare
from latcast.spaces.catalogue import build, model

PHONE = "pixel4/tflite-2.10/gpu/fp16"


def test_latencies_are_the_predictions_and_kernel_types_add_up_to_the_difference() -> None:
    found = compare("resnet50", "mobilenet_v2", on=PHONE)

    slow, fast = predict("resnet50", PHONE), predict("mobilenet_v2", PHONE)
    assert (found.a, found.b, found.platform) == ("resnet50", "mobilenet_v2", PHONE)
    assert (found.a_ms, found.b_ms) == (slow.latency_ms, fast.latency_ms)
    assert found.difference_ms == found.b_ms - found.a_ms < 0
    assert found.low_ms < found.difference_ms < found.high_ms
    assert (found.level, found.faster_probability) == (90.0, 1.0)
    assert sum(each.difference_ms for each in found.kernels) + fast.overhead_ms - slow.overhead_ms == pytest.approx(
        found.difference_ms
    )
    sizes = [abs(each.difference_ms) for each in found.kernel_types]
    assert sizes == sorted(sizes, reverse=True)
    [convolutions] = [each for each in found.kernel_types if each.kernel_type == "depthwise_conv"]
    assert (convolutions.a_count, convolutions.b_count) == (0, 17)


def test_identical_networks_differ_by_nothing() -> None:
    def network(name: str) -> Graph:
        b = GraphBuilder(name)
        return b.finish(b.relu(b.conv(b.input((1, 3, 32, 32)), 16, 3)))

    found = compare(network("one"), network("other"), on=PHONE)

    assert (found.a, found.b, found.difference_ms) == ("one", "other", 0.0)
    assert (found.low_ms, found.high_ms, found.level, found.faster_probability) == (0.0, 0.0, 90.0, 0.5)
    assert {each.difference_ms for each in found.kernels} == {0.0}
    assert repr(found) == (
        f"<Comparison other - one on {PHONE}: 0.000 ms, 90 % interval 0.000 to 0.000 ms, faster with probability 0.50>"
    )


def test_an_uncalibrated_interval_gives_no_probability() -> None:
    uncalibrated = replace(load(PHONE), interval=Interval())

    found = compare("resnet50", "mobilenet_v2", on=uncalibrated)

    assert (found.level, found.faster_probability) == (None, None)
    assert "uncalibrated interval" in repr(found)


def test_a_network_of_views_takes_no_time() -> None:
    b = GraphBuilder("view")
    view = b.finish(b.reshape(b.input((1, 3, 8, 8)), (1, 192)))
    bare = load(PHONE)
    free = replace(bare, network=replace(bare.network, constant_ms=0.0))

    found = compare(view, build(model("resnet18")), on=free)

    assert (found.a_ms, found.faster_probability) == (0.0, 0.0)


def test_several_platforms_are_compared_on_one_after_the_other() -> None:
    other = "s10/tflite-2.10/gpu/fp16"

    found = compare("resnet18", "resnet34", on=[PHONE, other])

    assert [each.platform for each in found] == [PHONE, other]
    assert found[1] == compare("resnet18", "resnet34", on=other)
    assert len({*found, compare("resnet18", "resnet34", on=other)}) == 2


def test_the_json_form_is_what_scripts_rely_on() -> None:
    document = json.loads(json.dumps(compare("resnet18", "resnet34", on=PHONE).to_json()))

    assert list(document) == [
        "a", "b", "platform", "b_platform", "a_ms", "b_ms", "difference_ms", "low_ms", "high_ms", "faster_probability", "level",
        "a_grade", "b_grade",
        "kernels", "kernel_types",
    ]  # fmt: skip
    assert list(document["kernels"][0]) == [
        "change", "kernel_type", "a", "b", "a_ms", "b_ms", "difference_ms", "configuration",
    ]  # fmt: skip
    assert set(document["kernel_types"][0]) == {"kernel_type", "a_count", "b_count", "a_ms", "b_ms", "difference_ms"}


def test_one_network_is_compared_on_several_platforms_by_what_their_errors_share() -> None:
    core = "pixel4/tflite-2.10/1large/"

    [found] = compare("mobilenet_v2", on=[core + "fp32", core + "int8"])

    a, b = predict("mobilenet_v2", [core + "fp32", core + "int8"])
    assert (found.a, found.b, found.platform, found.b_platform) == ("mobilenet_v2", "mobilenet_v2", a.platform, b.platform)
    assert (found.a_ms, found.b_ms) == (a.latency_ms, b.latency_ms)
    assert (found.low_ms, found.high_ms) == JointPlatforms((a, b)).pair(0, 1).difference_ms()
    assert {each.change for each in found.kernels} == {"same"}
    assert repr(found).startswith(f"<Comparison mobilenet_v2 on {core}int8 - mobilenet_v2 on {core}fp32: ")


def test_one_network_on_one_platform_is_no_comparison() -> None:
    with pytest.raises(LatcastError, match="expected two platforms at least"):
        compare("resnet18", on=PHONE)


def test_a_diff_begins_with_both_latencies_and_shows_what_the_edit_changed() -> None:
    def network(name: str, width: int) -> Graph:
        b = GraphBuilder(name)
        x = b.input((1, 3, 32, 32))
        for channels in (16, 16, 16, width, 16, 16, 16):
            x = b.relu(b.conv(x, channels, 3))
        return b.finish(x)

    lines = compare(network("old", 16), network("new", 24), on=PHONE).diff().splitlines()

    assert lines[0].startswith(f"--- old on {PHONE}: ")
    assert lines[1].startswith(f"+++ new on {PHONE}: ")
    assert [line[:2] for line in lines[3:]] == ["@@", "  ", "  ", "! ", "! ", "  ", "  "]
    assert "out_channels 16 -> 24: " in lines[6]
    assert "in_channels 16 -> 24: " in lines[7]


def test_a_comparison_draws_its_difference_and_that_of_each_type(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = compare("resnet50", "mobilenet_v2", on=[PHONE, "s10/tflite-2.10/gpu/fp16"])

    one = plot(found[0], tmp_path / "difference.png").axes[0]
    both = plot(found).axes[0]

    types = found[0].kernel_types
    assert [bar.get_width() for bar in one.patches] == [found[0].difference_ms, *(each.difference_ms for each in types)]
    assert [list(line.get_xdata()) for line in one.lines] == [[found[0].low_ms, found[0].high_ms]]
    assert [bar.get_width() for bar in both.patches] == [each.difference_ms for each in found]
    assert (tmp_path / "difference.png").exists()
