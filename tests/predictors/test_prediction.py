"""A prediction as people look at it."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from latcast.errors import LatcastError, MissingExtraError
from latcast.predictors.prediction import Coverage, Grade, KernelLatency, Prediction

KERNELS = (
    KernelLatency("a", "conv", ("Conv", "Relu"), {"in_channels": 3.0}, 1.0, True),
    KernelLatency("b", "dwconv", ("Conv",), {"in_channels": 8.0}, 4.0, True),
    KernelLatency("c", "conv", ("Conv",), {"in_channels": 8.0}, 3.5, False),
)

FOUND = Prediction(
    "<mine>", "pixel4/tflite-2.10/gpu/fp16", 9.0, 8.0, 112.3, Coverage(0.61, ("Conv",)), Grade.of(12.0, "little was measured"),
    ("3 % & more",), KERNELS, 0.5, 90.0,
)  # fmt: skip


def test_warnings_repeat_names_of_a_file_as_one_printable_line() -> None:
    found = replace(FOUND, warnings=("Conv, \r\nX: \x1b[31m runs on the CPU",))

    assert found.warnings == ("Conv, X: \\u001b[31m runs on the CPU",)


def test_its_text_is_one_short_line() -> None:
    said = "<Prediction <mine> on pixel4/tflite-2.10/gpu/fp16: 9.00 ms, 90 % interval 8.00 to 112 ms, fair, ±12 %>"
    assert repr(FOUND) == said
    assert "9.00 ms, uncalibrated interval 8.00 to 112 ms" in repr(replace(FOUND, level=None))


def test_a_notebook_shows_a_small_table_in_which_no_name_is_markup() -> None:
    shown = FOUND._repr_html_()

    assert ">&lt;mine&gt;</td>" in shown
    assert ">90 % interval ms</th>" in shown
    assert ">8.00 to 112</td>" in shown
    assert "<p>3 % &amp; more</p>" in shown
    assert len(shown) < 1000


def test_the_longest_kernels_come_first() -> None:
    assert [kernel.name for kernel in FOUND.top(2)] == ["b", "c"]
    assert FOUND.top() == (KERNELS[1], KERNELS[2], KERNELS[0])
    assert list(FOUND.by_type().items()) == [("conv", 4.5), ("dwconv", 4.0)]


def test_kernels_are_added_up_by_module_to_a_depth_and_by_limit() -> None:
    placed = [
        replace(kernel, module=module, limit=limit)
        for kernel, module, limit in zip(KERNELS, ("layer1.0.conv", "layer1.1.conv", ""), ("memory", "compute", ""), strict=True)
    ]
    found = replace(FOUND, kernels=tuple(placed))

    assert list(found.by_module().items()) == [("layer1.1.conv", 4.0), ("", 3.5), ("layer1.0.conv", 1.0)]
    assert found.by_module(1) == {"layer1": 5.0, "": 3.5}
    assert found.by_limit() == {"compute": 4.0, "memory": 1.0}  # what costs nothing, or is not known, is no limit


def test_asking_for_kernels_without_a_breakdown_is_refused() -> None:
    for ask in (FOUND.top, FOUND.by_type, FOUND.to_frame):
        assert isinstance(ask.__self__, Prediction)
        with pytest.raises(LatcastError, match=r"<mine> lists no kernels; ask for them with breakdown=True"):
            getattr(replace(FOUND, kernels=()), ask.__name__)()
    # A network of views alone has none.
    assert replace(FOUND, kernels=(), latency_ms=0.5).by_type() == {}


def test_equal_predictions_are_one_in_a_set() -> None:
    again = replace(FOUND, kernels=tuple(replace(kernel) for kernel in KERNELS))

    assert len({FOUND, again, replace(FOUND, latency_ms=8.5)}) == 2


def test_a_frame_has_a_row_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas: Any = ModuleType("pandas")
    pandas.DataFrame = list
    monkeypatch.setitem(sys.modules, "pandas", pandas)

    rows: Any = FOUND.to_frame()

    assert [row["latency_ms"] for row in rows] == [1.0, 4.0, 3.5]
    assert rows[0] == {
        "name": "a", "kernel_type": "conv", "operators": "Conv+Relu", "latency_ms": 1.0, "covered": True,
        "module": "", "limit": "", "in_channels": 3.0,
    }  # fmt: skip


def test_without_pandas_a_frame_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(MissingExtraError, match=r"a data frame needs the package 'pandas'.*: pip install pandas$"):
        FOUND.to_frame()
