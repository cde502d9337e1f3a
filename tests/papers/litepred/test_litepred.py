"""LitePred's tables and figures, on platforms whose law is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from latcast.devices.pool import Pool
from latcast.errors import DatasetError
from papers.litepred import kernels
from papers.litepred.kernels import Kernels, figure_6, figure_7
from papers.litepred.samplers import read_benchmark, table_6
from tests.devices.made_up_pool import COMPUTE, MEMORY, convs, law_ms, platform_of


@pytest.fixture(scope="module")
def known() -> Kernels:
    rows = convs(90, seed=2)
    latencies = dict(zip(map(tuple, rows.tolist()), (4 * law_ms(rows, COMPUTE)).tolist(), strict=True))
    return Kernels.of({"conv": {**latencies, tuple(convs(91, seed=2)[-1].tolist()): float("nan")}}, "conv")


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool.of([platform_of("phone", COMPUTE), platform_of("board", MEMORY)])


@pytest.fixture(autouse=True)
def few_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SPLITS", 1)
    monkeypatch.setattr(kernels, "AMOUNTS", (25, 50))


def test_kernels_that_could_not_be_measured_are_left_out(known: Kernels) -> None:
    assert len(known.latency_ms) >= 89
    assert not np.isnan(known.latency_ms).any()


def test_too_few_kernels_are_refused_with_how_to_get_more() -> None:
    with pytest.raises(DatasetError, match="found 1 measured kernels of type 'conv', expected at least 50"):
        Kernels.of({"conv": {tuple(convs(1)[0].tolist()): 1.0}}, "conv")


def test_figure_6_finds_the_platform_of_the_same_law(known: Kernels, pool: Pool) -> None:
    found = figure_6(known, pool)

    assert found.column("samples") == [25, 50]
    assert found.column("of lowest divergence") == ["phone/onnxruntime-1.31/cpu1/fp32"] * 2


def test_figure_7_shows_that_transfer_needs_fewer_samples(known: Kernels, pool: Pool) -> None:
    found = figure_7(known, pool)

    scratch, adapted = (found.column(f"{how}, MAPE %") for how in ("from scratch", "transferred"))
    assert adapted[0] < scratch[0]  # type: ignore[operator]
    assert found.notes[0].endswith("with 25: 2.0 times fewer samples.")


def _arm(kernel_type: str, sampler: str, seed: int, within_10: float) -> dict[str, object]:
    early = {"trained_on": "everything", "within_10": 1.0, "mape": 99.0}
    late = {"trained_on": "everything", "within_10": within_10, "mape": 10.0}
    steered = {"trained_on": "without steering set", "within_10": 2.0, "mape": 99.0}
    return {"kernel_type": kernel_type, "sampler": sampler, "seed": seed, "curve": [early, late, steered]}


def test_table_6_has_the_last_point_of_every_curve_beside_the_papers() -> None:
    arms = [_arm("conv", "vae", 0, 40.0), _arm("conv", "vae", 1, 50.0), _arm("depthwise_conv", "vae", 0, 60.0)]

    found = table_6({"count": 300, "arms": arms}, "made-up")

    assert found.rows[1] == ("Xiaomi11 CPU MindSpore", "vae", 10_000, 91.4, None, 93.6, None)
    assert found.rows[-1] == ("made-up", "vae", 300, 45.0, 10.0, 60.0, 10.0)


def test_what_is_no_benchmark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text(json.dumps({"arms": [{}]}))

    with pytest.raises(DatasetError, match="holds a list; expected an object"):
        read_benchmark(tmp_path / "list.json")
    with pytest.raises(DatasetError, match="expected what 'benchmarks samplers' wrote"):
        table_6(read_benchmark(tmp_path / "other.json"), "other")
