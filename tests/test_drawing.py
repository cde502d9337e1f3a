"""Figures of plain numbers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.drawing import LogAxis, bars, curves, pareto, plot, write
from latcast.errors import LatcastError
from latcast.forecast import predict
from latcast.predictors.prediction import Coverage, Grade, Prediction

pytest.importorskip("matplotlib")

PHONE = "pixel4/tflite-2.10/gpu/fp16"


def prediction(model: str, platform: str, latency_ms: float) -> Prediction:
    return Prediction(model, platform, latency_ms, 0.9 * latency_ms, 1.2 * latency_ms, Coverage(1.0, ()), Grade.of(5.0, ""))


def test_bars_have_their_lengths_and_the_first_is_on_top() -> None:
    axes = bars(["conv_0", "conv_1"], [2.0, 0.5], bounds_ms=[(1.5, 3.0), None]).axes[0]

    assert [bar.get_width() for bar in axes.patches] == [2.0, 0.5]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["conv_0", "conv_1"]
    assert axes.yaxis_inverted()
    assert [list(line.get_xdata()) for line in axes.lines] == [[1.5, 3.0]]
    assert {text.get_text() for text in axes.texts} == {"2.00", "0.500"}


def test_a_notebook_shows_a_figure() -> None:
    assert bars(["conv_0"], [2.0])._repr_png_().startswith(b"\x89PNG")


def test_a_curve_has_a_point_a_size_and_a_band() -> None:
    axes = curves([128, 160], {"here": ([1.0, 2.0], [0.9, 1.8], [1.2, 2.5])}, title="", below="resolution").axes[0]

    assert list(axes.lines[0].get_xdata()) == [128, 160]
    assert list(axes.lines[0].get_ydata()) == [1.0, 2.0]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.9, 2.5)


def test_a_front_is_a_line_of_steps_through_its_own_points_alone() -> None:
    figure = pareto(
        [3.0, 1.0, 2.0], [80.0, 70.0, 60.0], quality_name="top-1 accuracy, %", front=[True, True, False], names=["c", "a", "b"],
        bounds_ms=([2.5, 0.5, 1.5], [4.0, 1.5, 2.5]), max_latency_ms=2.2, measured_ms=np.array([3.1, np.nan]),
    )  # fmt: skip

    axes = figure.axes[0]
    others, steps, *_ = axes.lines
    assert (list(others.get_xdata()), list(others.get_ydata())) == ([2.0], [60.0])
    assert (list(steps.get_xdata()), list(steps.get_ydata())) == ([1.0, 3.0], [70.0, 80.0])
    assert [text.get_text() for text in axes.texts] == ["a", "c"]
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {
        "others", "predicted, with interval", "measured", "limit",
    }  # fmt: skip


def test_names_of_a_front_that_would_cover_each_other_are_left_out() -> None:
    figure = pareto([1.0, 2.0, 3.0, 4.0], [50.0, 70.0, 70.1, 80.0], quality_name="top-1 accuracy, %", names=["a", "b", "c", "d"])

    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b", "d"]


def test_several_predictions_are_named_by_what_differs() -> None:
    one_model = plot([prediction("a", "p", 1.0), prediction("a", "q", 2.0)])
    one_platform = plot([prediction("a", "p", 1.0), prediction("b", "p", 2.0)])
    neither = plot([prediction("a", "p", 1.0), prediction("b", "q", 2.0)])

    names = [[label.get_text() for label in figure.axes[0].get_yticklabels()] for figure in (one_model, one_platform, neither)]
    assert names == [["p", "q"], ["a", "b"], ["a on p", "b on q"]]
    assert [list(line.get_xdata()) for line in one_model.axes[0].lines] == [[0.9, 1.2], [1.8, 2.4]]


def test_a_prediction_draws_its_longest_kernels(tmp_path: Path) -> None:
    found = predict("resnet18", on=PHONE)

    figure = plot(found, tmp_path / "resnet18.png")

    longest = found.top(20)
    assert [bar.get_width() for bar in figure.axes[0].patches] == [kernel.latency_ms for kernel in longest]
    assert figure.get_suptitle().startswith(f"resnet18 on {PHONE}")
    assert (tmp_path / "resnet18.png").read_bytes().startswith(b"\x89PNG")


def test_an_object_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LatcastError, match="found dict"):
        plot({"latency_ms": 1.0})  # type: ignore[arg-type]
    with pytest.raises(LatcastError, match="is empty"):
        plot([])
    with pytest.raises(LatcastError, match="several of type dict"):
        plot([{"latency_ms": 1.0}])
    with pytest.raises(LatcastError, match=r"figure\.nosuch"):
        write(bars(["a"], [1.0]), tmp_path / "figure.nosuch")


def test_an_axis_is_logarithmic() -> None:
    axis = LogAxis(1.0, 100.0)

    assert [axis.x(value) for value in (0.5, 1.0, 10.0, 100.0, 200.0)] == [0.0, 0.0, 50.0, 100.0, 100.0]
    assert [tick.label for tick in axis.ticks] == ["1 ms", "2", "5", "10", "20", "50", "100"]
    assert [tick.label for tick in LogAxis(0.1, 10_000.0).ticks] == ["0.1 ms", "1", "10", "100", "1000", "10000"]
    assert [tick.label for tick in LogAxis(0.001, 1e7).ticks] == ["0.01 ms", "1", "100", "10000", "1e+06"]


@given(low_ms=st.floats(1e-4, 1e5), times=st.floats(1.3, 1e8))
def test_labels_of_an_axis_neither_touch_nor_leave_it(low_ms: float, times: float) -> None:
    ticks = LogAxis(low_ms, low_ms * times).ticks

    for left, right in pairwise(ticks):
        assert left.ends[1] < right.ends[0]
    for tick in ticks:
        assert tick.ends[0] >= 0
        assert tick.ends[1] <= 100
