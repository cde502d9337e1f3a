"""Transfer of kernels and to new platforms, where the law of each platform is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.errors import DatasetError
from latcast.kernels.kernel import Kernel
from latcast.records import Platform, Reference
from latcast.training.adaptation import held_out_by_kernels
from latcast.training.pool import Pool
from latcast.training.samples import KernelObservation, NetworkSample, TrainingData
from papers.litepred import paper, transfer
from papers.litepred.transfer import Kernels, NewPlatform, figure_6, figure_7, framework, table_5
from tests.devices.made_up_pool import COMPUTE, MEMORY, RULES, convs, law_ms, platform_of


@pytest.fixture(scope="module")
def target() -> NewPlatform:
    """A platform of the law :data:`COMPUTE`, four times as slow; networks of three kernels each."""
    rows = convs(70, seed=2)
    latency_ms = 4 * law_ms(rows, COMPUTE)
    kernels = [Kernel("conv", tuple(row), "conv", ("conv",), ("Conv",)) for row in rows.tolist()]
    observed = tuple(KernelObservation(kernel, float(ms)) for kernel, ms in zip(kernels[:40], latency_ms[:40], strict=True))
    networks = tuple(
        NetworkSample(
            Reference("imagined", {"number": place}),
            tuple(kernels[place : place + 3]),
            float(latency_ms[place : place + 3].sum()),
        )
        for place in range(40, 67, 3)
    )
    return NewPlatform(Platform.parse("new/onnxruntime-1.31/cpu1/fp32"), RULES, TrainingData(observed, (), networks), 1.5)


def test_the_most_similar_platform_is_named_and_the_papers_come_first(target: NewPlatform) -> None:
    found = table_5([target], Pool.of([platform_of("phone", COMPUTE), platform_of("board", MEMORY)]))

    assert found.rows[0][:5] == ("a", "Xiaomi11 CPU, ORT", "Xiaomi12 CPU, ORT", "Xiaomi12 CPU, ORT", 1400)
    assert found.rows[0][5] == pytest.approx(28.8)
    ours = found.rows[len(paper.TABLE_5) :]
    assert len(ours) == 1  # every platform of the pool has the target's framework
    assert ours[0][:6] == ("a", target.platform.id, "phone/onnxruntime-1.31/cpu1/fp32", None, 40, 1.5)
    assert ours[0][6] < 10  # type: ignore[operator]
    assert any(note.endswith("no predictor is left for (b).") for note in found.notes)


def test_overhead_is_learned_from_networks_of_other_families(target: NewPlatform) -> None:
    predictor = platform_of("new", 4 * COMPUTE)
    networks = [replace(each, latency_ms=2 * each.latency_ms) for each in target.data.networks]
    actual_ms = np.array([each.latency_ms for each in networks])

    as_sums = predictor.estimate([each.kernels for each in networks]).latency_ms
    together = held_out_by_kernels(predictor, networks).latency_ms

    assert (as_sums < 0.7 * actual_ms).all()
    assert np.abs(together / actual_ms - 1).mean() < 0.1


def test_the_platform_itself_is_no_source(target: NewPlatform) -> None:
    own = platform_of("new", 4 * COMPUTE)

    found = table_5([target], Pool.of([own, platform_of("board", MEMORY)]))

    assert found.rows[len(paper.TABLE_5)][2] == "board/onnxruntime-1.31/cpu1/fp32"


def test_frameworks_are_one_under_two_names() -> None:
    names = ["a/litert-2.3/cpu1/fp32", "b/tflite-2.10/gpu/fp16", "c/ncnn-1.0/cpu1/fp32"]

    assert [framework(Platform.parse(name)) for name in names] == ["tflite", "tflite", "ncnn"]


def test_a_store_without_networks_to_judge_on_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "empty.sqlite") as store, pytest.raises(DatasetError, match="found 0 measured networks of new"):
        NewPlatform.of(store, Platform.parse("new/onnxruntime-1.31/cpu1/fp32"))


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
    monkeypatch.setattr(transfer, "SPLITS", 1)
    monkeypatch.setattr(transfer, "AMOUNTS", (25, 50))


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
