"""Kernel predictors of a new platform from those of others and few samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import BundleError
from latcast.kernels.types import kernel_type
from latcast.kernels.types.elementwise import ACTIVATIONS
from latcast.predictors.analytical import fit_from_kernels, term_values
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.kernel_predictor import TRANSFERRED, KernelSource, fit_kernel_predictor, fit_transferred_base
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.training.residual_transfer import BASE, SCRATCH, fit_transferred, kernel_source
from tests.devices.made_up_pool import COMPUTE, MEMORY, RULES, convs, law_ms, platform_of

TEST = convs(200, seed=3)


@pytest.fixture(scope="module")
def source() -> KernelSource:
    return kernel_source(platform_of("phone", COMPUTE, count=800), "conv")


def _mape(predicted: np.ndarray, actual: np.ndarray) -> float:
    return 100 * float(np.abs(predicted / actual - 1).mean())


def test_twenty_samples_of_a_platform_four_times_as_slow_suffice_where_scratch_needs_many_more(source: KernelSource) -> None:
    rows = convs(20, seed=5)
    samples = (rows, law_ms(rows, 4 * COMPUTE))
    analytical = fit_from_kernels({"conv": samples})
    actual = law_ms(TEST, 4 * COMPUTE)

    found = fit_transferred("conv", *samples, analytical, [source])
    scratch = fit_kernel_predictor("conv", *samples, analytical)

    assert found.way == BASE
    assert found.predictor.samples == 20
    assert _mape(found.predictor.latency_ms(analytical, TEST), actual) < 0.6 * _mape(scratch.latency_ms(analytical, TEST), actual)


def test_three_samples_of_a_class_lean_on_the_whole_type() -> None:
    """Weighed against the prior as 1 to 0.101 over three terms: ``(w - 2)² + 0.101 (w - 1)² / 3`` is least at 1.967."""
    kind = kernel_type("activation")
    rows = np.zeros((203, 6))
    rows[:, 0] = [*np.linspace(1000, 40000, 200), 20000, 20000, 20000]
    rows[:, 1], rows[:, 2] = 10, [ACTIVATIONS.index("relu")] * 200 + [ACTIVATIONS.index("sqrt")] * 3
    plain_ms = 1e-6 * term_values(kind, rows)[:, 1]

    fitted = fit_transferred_base("activation", rows, np.where(np.arange(203) < 200, 1, 2) * plain_ms, ())

    assert fitted.latency_ms("activation", rows[-1:]) / plain_ms[-1] == pytest.approx([1.967], abs=0.006)


def test_a_source_that_knows_nothing_of_the_platform_does_no_harm(source: KernelSource) -> None:
    """The source computes slowly, the platform waits for memory; judged on kernels that neither was trained on."""
    rows = convs(150, seed=5)
    samples = (rows, law_ms(rows, MEMORY))
    analytical = fit_from_kernels({"conv": samples})
    actual = law_ms(TEST, MEMORY)

    found = fit_transferred("conv", *samples, analytical, [source])

    scratch = _mape(fit_kernel_predictor("conv", *samples, analytical).latency_ms(analytical, TEST), actual)
    scaled = _mape(fit_transferred_base("conv", *samples, (source,)).latency_ms("conv", TEST), actual)
    assert scaled > 1.5 * scratch
    assert _mape(found.predictor.latency_ms(analytical, TEST), actual) < 1.1 * scratch


def test_without_sources_it_is_learned_from_scratch() -> None:
    rows = convs(30, seed=5)
    latency_ms = law_ms(rows, COMPUTE)
    analytical = fit_from_kernels({"conv": (rows, latency_ms)})

    found = fit_transferred("conv", rows, latency_ms, analytical, [])

    expected = fit_kernel_predictor("conv", rows, latency_ms, analytical)
    assert (found.way, found.predictor.base) == (SCRATCH, None)
    np.testing.assert_array_equal(found.predictor.latency_ms(analytical, TEST), expected.latency_ms(analytical, TEST))


def test_the_same_samples_give_the_same_predictor_twice(source: KernelSource) -> None:
    rows = convs(80, seed=5)
    latency_ms = law_ms(rows, 2 * COMPUTE, step=16)
    analytical = fit_from_kernels({"conv": (rows, latency_ms)})

    first, again = (fit_transferred("conv", rows, latency_ms, analytical, [source], seed=2) for _ in range(2))

    assert first.errors == again.errors
    np.testing.assert_array_equal(first.predictor.latency_ms(analytical, TEST), again.predictor.latency_ms(analytical, TEST))


def test_coefficients_are_never_negative_and_a_scaled_source_gets_its_scale(source: KernelSource) -> None:
    rows = convs(60, seed=5)

    base = fit_transferred_base("conv", rows, 4 * source.latency_ms(rows), (source,))

    assert min(values.min() for values in base.coefficients.values()) >= 0
    np.testing.assert_allclose(base.latency_ms("conv", TEST), 4 * source.latency_ms(TEST), rtol=0.05)


class TestBundles:
    @pytest.fixture
    def predictor(self, source: KernelSource) -> PlatformPredictor:
        rows = convs(90, seed=5)
        latency_ms = law_ms(rows, 2 * COMPUTE)
        analytical = fit_from_kernels({"conv": (rows, latency_ms)})
        found = fit_transferred("conv", rows, latency_ms, analytical, [source])
        assert found.predictor.model == TRANSFERRED
        return PlatformPredictor(Platform.parse("new/onnxruntime-1.31/cpu1/fp32"), RULES, analytical, {"conv": found.predictor})

    def test_a_transferred_predictor_is_saved_with_its_sources_and_predicts_the_same(
        self, predictor: PlatformPredictor, tmp_path: Path
    ) -> None:
        loaded = load_bundle(save_bundle(predictor, tmp_path / "bundle.zip"))

        base = loaded.kernels["conv"].base
        assert base is not None
        assert [each.platform for each in base.sources] == ["phone/onnxruntime-1.31/cpu1/fp32"]
        rows = {"conv": TEST}
        np.testing.assert_allclose(loaded.raw_kernel_latency_ms(rows), predictor.raw_kernel_latency_ms(rows), rtol=1e-12)

    def test_a_transferred_predictor_can_be_a_source_in_turn(self, predictor: PlatformPredictor, tmp_path: Path) -> None:
        rows = convs(90, seed=6)
        latency_ms = law_ms(rows, 3 * COMPUTE)
        analytical = fit_from_kernels({"conv": (rows, latency_ms)})
        base = fit_transferred_base("conv", rows, latency_ms, (kernel_source(predictor, "conv"),))
        second = replace(predictor, analytical=analytical, kernels={"conv": replace(predictor.kernels["conv"], base=base)})

        loaded = load_bundle(save_bundle(second, tmp_path / "bundle.zip"))

        np.testing.assert_allclose(
            loaded.raw_kernel_latency_ms({"conv": TEST}), second.raw_kernel_latency_ms({"conv": TEST}), rtol=1e-12
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"sources": [', '"sources": [], "were": ['),
            ('"platform": "phone/', '"platform": "nothing'),
            ('"transferred": {', '"transferred": 3, "was": {'),
        ],
    )  # fmt: skip
    def test_a_bundle_with_damaged_sources_is_refused(
        self, predictor: PlatformPredictor, tmp_path: Path, old: str, new: str
    ) -> None:
        folder = save_bundle(predictor, tmp_path / "bundle")
        document = folder / "platform.json"
        text = document.read_text()
        assert old in text
        document.write_text(text.replace(old, new, 1))

        with pytest.raises(BundleError):
            load_bundle(folder)


def test_unused_sources_are_dropped(source: KernelSource) -> None:
    """Of two sources of the same platform the one that says the opposite of what was measured: long where kernels are short."""
    rows = convs(30, seed=5)
    latency_ms = 2 * source.latency_ms(rows)
    analytical = fit_from_kernels({"conv": (rows, latency_ms)})
    against = KernelSource("board", analytical, fit_kernel_predictor("conv", rows, 1 / latency_ms, analytical))

    found = fit_transferred("conv", rows, latency_ms, analytical, [against, source]).predictor

    assert found.base is not None
    assert [one.platform for one in found.base.sources] == [source.platform]
