"""The predictor of one kernel type, and what regressors see of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from latcast.kernels import KERNEL_TYPES, KernelTable, find_kernels, kernel_type
from latcast.kernels.types.kernel_type import FUSED_FIELDS
from latcast.predictors.analytical import POOLED, AnalyticalTerms, fit_from_kernels, term_values
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.kernel_predictor import (
    ANALYTICAL,
    ANALYTICAL_GBDT,
    FEW_SAMPLES,
    KernelPredictor,
    Seen,
    TransferredBase,
    feature_matrix,
    feature_names,
    fit_kernel_predictor,
    kernel_models,
)
from latcast.predictors.regressors import REGRESSORS
from latcast.spaces.catalogue import build, model
from tests.predictors.made_up_platform import RULES, TRUTH, make_predictor

LINEAR = kernel_type("linear")


def linear_kernels(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 16, 64, 197], count)
    unfused = [0 * rows] * len(FUSED_FIELDS)
    return np.stack([rows, rng.integers(16, 2048, count), rng.integers(16, 2048, count), *unfused], axis=1)


def slow_where_unaligned(configurations: np.ndarray) -> np.ndarray:
    """Physics, and half as much again where the outputs are no multiple of 16."""
    aligned = configurations[:, 2] % 16 == 0
    return (term_values(LINEAR, configurations) @ TRUTH) * np.where(aligned, 1.0, 1.5)


@pytest.mark.parametrize("model", kernel_models())
def test_every_model_learns_a_type(model: str) -> None:
    train, test = linear_kernels(400), linear_kernels(100, seed=1)
    analytical = fit_from_kernels({"linear": (train, slow_where_unaligned(train))})

    fitted = fit_kernel_predictor("linear", train, slow_where_unaligned(train), analytical, model=model)

    error = np.abs(fitted.latency_ms(analytical, test) / slow_where_unaligned(test) - 1).mean()
    assert fitted.model == model
    assert fitted.samples == 400
    assert error < 0.35


class Constant:
    """A regressor of another distribution: the mean latency, whatever the kernel."""

    kind = "constant"

    def __init__(self, mean_ms: float) -> None:
        self.mean_ms = mean_ms

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.full(len(features), self.mean_ms)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean_ms": np.array([self.mean_ms])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Constant:
        return cls(float(arrays["mean_ms"][0]))

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> Constant:
        return cls(float(latency_ms.mean()))


def test_a_regressor_of_another_distribution_is_trained_and_kept_in_a_bundle(tmp_path: Path) -> None:
    rows = linear_kernels(40)
    samples = {"linear": (rows, slow_where_unaligned(rows))}
    entry = EntryPoint("constant", f"{__name__}:Constant", "latcast.regressors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latcast.registry.entry_points_of", lambda group: [entry] if group == "latcast.regressors" else [])
        patch.setattr(REGRESSORS, "_targets", dict(REGRESSORS._targets))
        patch.setattr(REGRESSORS, "_scanned", False)
        patch.setattr(EntryPoint, "load", lambda self: Constant)
        assert {"analytical_gbdt", "analytical", "constant"} <= set(kernel_models())

        loaded = load_bundle(save_bundle(make_predictor("constant", samples), tmp_path / "bundle.zip"))

        assert loaded.kernels["linear"].model == "constant"
        assert loaded.kernels["linear"].latency_ms(loaded.analytical, rows) == pytest.approx(slow_where_unaligned(rows).mean())


def test_a_residual_learns_what_physics_alone_cannot() -> None:
    train, test = linear_kernels(600), linear_kernels(200, seed=1)
    analytical = fit_from_kernels({"linear": (train, slow_where_unaligned(train))})
    alone, residual = (
        fit_kernel_predictor("linear", train, slow_where_unaligned(train), analytical, model=model)
        for model in (ANALYTICAL, ANALYTICAL_GBDT)
    )

    errors = [np.abs(p.latency_ms(analytical, test) / slow_where_unaligned(test) - 1).mean() for p in (alone, residual)]

    assert errors[1] < 0.6 * errors[0]


def kernels_of(name: str, sizes: Mapping[str, tuple[int, int]], count: int, seed: int = 0) -> np.ndarray:
    """Random kernels of a type: sizes drawn evenly in logarithms between two ends, the other fields 1, what is fused 0."""
    rng = np.random.default_rng(seed)
    fixed = {**dict.fromkeys(kernel_type(name).fields, (1, 1)), **dict.fromkeys((*FUSED_FIELDS, "padded"), (0, 0)), **sizes}
    drawn = [
        np.full(count, low) if low == high else np.exp(rng.uniform(np.log(low), np.log(high), count)).round()
        for low, high in (fixed[field] for field in kernel_type(name).fields)
    ]
    return np.stack(drawn, axis=1).astype(np.int64)


SIZES: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "linear": {"rows": (1, 200), "in_features": (16, 1024), "out_features": (16, 1024)},
    "recurrent": {"steps": (1, 200), "in_features": (8, 512), "hidden": (16, 512)},
}


class TestFarOutside:
    @pytest.mark.parametrize("factor", [4, 16])
    @pytest.mark.parametrize("name", ["linear", "recurrent"])
    @pytest.mark.parametrize("model", kernel_models())
    def test_a_kernel_beyond_the_range_takes_as_much_longer_as_its_arithmetic_and_bytes(
        self, model: str, name: str, factor: int
    ) -> None:
        kind, train = kernel_type(name), kernels_of(name, SIZES[name], 300)
        analytical = fit_from_kernels({name: (train, term_values(kind, train) @ TRUTH)})
        fitted = fit_kernel_predictor(name, train, term_values(kind, train) @ TRUTH, analytical, model=model)

        for size in SIZES[name]:
            asked = np.median(train, axis=0).astype(np.int64)[None]
            asked[0, kind.fields.index(size)] = factor * train[:, kind.fields.index(size)].max()
            found, true = fitted.latency_ms(analytical, asked)[0], (term_values(kind, asked) @ TRUTH)[0]
            assert true / 1.7 < found < 1.7 * true, size

    def test_beyond_a_factor_of_two_what_was_learned_counts_less_and_less(self) -> None:
        # Steps up to 10; the logarithm of the factor over that of 8.
        train = kernels_of("recurrent", {"steps": (1, 10), "in_features": (64, 64), "hidden": (64, 64)}, 50)
        predictor = KernelPredictor(
            "recurrent", ANALYTICAL, None, train.min(axis=0), train.max(axis=0), 50, Seen.of("recurrent", train)
        )
        asked = np.repeat(train[:1], 6, axis=0)
        asked[:, 0] = [10, 20, 40, 80, 160, 640]

        found = predictor.familiarity(asked)

        assert found.extrapolated == pytest.approx([0, 0, 2 / 3, 1, 1, 1])
        assert found.covered.tolist() == [True, True, False, False, False, False]

    @pytest.mark.parametrize("model", [ANALYTICAL, ANALYTICAL_GBDT, "constant"])
    def test_images_beyond_the_batches_trained_on_are_convolved_one_after_another(
        self, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(REGRESSORS, "_targets", dict(REGRESSORS._targets))
        REGRESSORS.register("constant", Constant)
        sizes = {"in_channels": (8, 256), "in_h": (7, 56), "out_channels": (8, 256), "out_h": (7, 56), "kernel_h": (1, 5)}
        train = kernels_of("conv", sizes, 200)
        latency_ms = term_values(kernel_type("conv"), train) @ TRUTH
        analytical = fit_from_kernels({"conv": (train, latency_ms)})
        fitted = fit_kernel_predictor("conv", train, latency_ms, analytical, model=model)
        many = train.copy()
        many[:, 0] = 300

        one_ms, many_ms = (fitted.latency_ms(analytical, rows) for rows in (train, many))

        assert many_ms == pytest.approx(300 * one_ms)


def test_a_type_with_few_samples_keeps_its_analytical_terms() -> None:
    rows = linear_kernels(FEW_SAMPLES - 1)
    analytical = fit_from_kernels({"linear": (rows, slow_where_unaligned(rows))})

    fitted = fit_kernel_predictor("linear", rows, slow_where_unaligned(rows), analytical, model=ANALYTICAL_GBDT)

    assert (fitted.model, fitted.regressor) == (ANALYTICAL, None)
    assert fitted.latency_ms(analytical, rows).tolist() == analytical.latency_ms(LINEAR, rows).tolist()


LOW, HIGH = np.array([1, 10, 10, 0, 0, 0]), np.array([4, 20, 20, 1, 0, 0])
ANY_WORK = Seen({}, 1e12, 1e12)
"""Trained on kernels of so much work that none is beyond it."""


def test_a_kernel_is_outside_where_any_field_is() -> None:
    fitted = KernelPredictor(
        "linear", ANALYTICAL, None, np.array([1, 10, 10, 0, 0, 0]), np.array([4, 20, 20, 1, 0, 0]), 9, ANY_WORK
    )

    rows = np.array(
        [
            [1, 10, 10, 0, 0, 0],
            [4, 20, 20, 1, 0, 0],
            [5, 15, 15, 0, 0, 0],
            [2, 15, 9, 0, 0, 0],
            [2, 15, 15, 0, 1, 0],
            [2, 15, 15, 0, 0, 1],
        ]
    )

    assert fitted.familiarity(rows).outside.tolist() == [False, False, True, True, True, True]


class TestTheLike:
    """Rows trained on: 1 to 4, features: 10 to 20, up to one FLOP fused."""

    known = KernelPredictor(
        "linear", ANALYTICAL, None, np.array([1, 10, 10, 0, 0, 0]), np.array([4, 20, 20, 1, 0, 0]), 9, ANY_WORK
    )

    def covered(self, *rows: tuple[int, ...], predictor: KernelPredictor = known) -> list[bool]:
        return predictor.familiarity(np.array(rows)).covered.tolist()

    def test_a_size_beyond_its_range_is_covered_up_to_a_factor_of_two(self) -> None:
        assert self.covered((8, 15, 15, 0, 0, 0), (2, 5, 40, 0, 0, 0)) == [True, True]
        assert self.covered((9, 15, 15, 0, 0, 0), (2, 4, 15, 0, 0, 0), (2, 15, 41, 0, 0, 0)) == [False, False, False]

    def test_zero_and_one_are_neighbours(self) -> None:
        assert self.covered((2, 15, 15, 2, 1, 1), (2, 15, 15, 3, 0, 0)) == [True, False]

    def test_a_kernel_of_more_than_four_times_the_work_is_not_covered_though_each_size_is(self) -> None:
        # The largest trained on does 2 x 4 x 10 x 20 = 1600 FLOPs.
        rows = np.array([[4, 10, 20, 0, 0, 0], [1, 20, 10, 1, 0, 0]])
        predictor = replace(self.known, seen=Seen.of("linear", rows))

        assert predictor.seen == Seen({}, 1600.0, 4 * 10 + 4 * 20 + 10 * 20)
        # 8 x 20 x 20 and 8 x 25 x 20 products; 4 x 1600 are 6400 FLOPs.
        assert self.covered((8, 20, 20, 0, 0, 0), (8, 25, 20, 0, 0, 0), predictor=predictor) == [True, False]
        assert predictor.reason((8, 25, 20, 0, 0, 0)) == "8.0e+03 FLOPs, trained on up to 1.6e+03"

    def test_the_field_furthest_out_is_the_reason(self) -> None:
        assert self.known.reason((5, 15, 60, 0, 0, 0)) == "out_features 60, trained on 10 to 20"
        assert self.known.reason((2, 15, 15, 0, 3, 0)) == "fused_inputs 3, trained on 0"
        assert self.known.reason((2, 15, 15, 0, 0, 0)) == ""


class TestKinds:
    """Activations trained on: ReLU (0), sigmoid (4), hard-swish (6)."""

    rows = np.array([[64, 8, 0, 0, 0, 0], [256, 8, 4, 0, 0, 0], [256, 16, 6, 0, 0, 0]])
    predictor = KernelPredictor(
        "activation", ANALYTICAL, None, rows.min(axis=0), rows.max(axis=0), 3, Seen.of("activation", rows)
    )
    asked = np.array([[64, 8, code, 0, 0, 0] for code in (0, 1, 4, 6, 8)])

    def test_a_kind_between_two_that_were_trained_on_is_not_covered(self) -> None:
        found = self.predictor.familiarity(self.asked)

        assert found.covered.tolist() == [True, False, True, True, False]
        assert found.outside.tolist() == [False, True, False, False, True]

    def test_the_kind_is_the_reason_by_its_name(self) -> None:
        assert self.predictor.reason((64, 8, 1, 0, 0, 0)) == "relu6, not trained on"

    def test_two_predictors_know_what_either_was_trained_on(self) -> None:
        first, second = Seen({"function": (0, 4)}, 10.0, 5.0), Seen({"function": (4, 6)}, 7.0, 9.0)

        assert Seen.union([first, second]) == Seen({"function": (0, 4, 6)}, 10.0, 9.0)


@pytest.mark.parametrize(
    ("type_name", "strided", "plain", "parted"),
    [
        ("softmax", (16, 49, 16, 0, 0, 0), (16, 49, 0, 0, 0, 0), "softmax strided"),
        ("copy", (128, 64, 2, 64, 0, 0, 0), (128, 64, 0, 0, 0, 0, 0), "copy reflect pad"),
    ],
)
def test_a_transferred_base_that_knows_a_class_as_a_whole_has_its_coefficients_for_each_part(
    type_name: str, strided: tuple[int, ...], plain: tuple[int, ...], parted: str
) -> None:
    of = {POOLED: np.full(4, 9.0), type_name: np.full(4, 1.0)}
    older, newer = TransferredBase((), of), TransferredBase((), {**of, parted: np.full(4, 2.0)})
    rows = np.array([strided, plain])
    whole_ms = term_values(kernel_type(type_name), rows).sum(axis=1)

    assert older.latency_ms(type_name, rows) == pytest.approx(whole_ms)
    assert newer.latency_ms(type_name, rows) == pytest.approx([2, 1] * whole_ms)


def test_analytical_terms_that_know_nothing_still_give_a_latency() -> None:
    rows = linear_kernels(5)
    fitted = KernelPredictor("linear", ANALYTICAL, None, rows.min(axis=0), rows.max(axis=0), 0, ANY_WORK)

    assert (fitted.latency_ms(AnalyticalTerms({POOLED: np.zeros(4)}), rows) > 0).all()


def test_the_features_of_a_linear_layer_by_hand() -> None:
    kind = kernel_type("linear")

    values = dict(zip(feature_names(kind), feature_matrix(kind, np.array([[4, 10, 6, 1, 0, 0]]))[0].tolist(), strict=True))

    assert {name: values[name] for name in kind.fields} == {
        "rows": 4, "in_features": 10, "out_features": 6, "fused_flops": 1, "fused_inputs": 0, "fused_transcendentals": 0,
    }  # fmt: skip
    assert (values["flops"], values["input_elements"], values["output_elements"], values["weight_elements"]) == (480, 40, 24, 60)
    assert values["intensity"] == pytest.approx(480 / 124)


@pytest.mark.parametrize("name", sorted(KERNEL_TYPES))
def test_every_type_has_a_finite_column_for_each_name(name: str) -> None:
    kind = KERNEL_TYPES.get(name)

    features = feature_matrix(kind, np.ones((3, len(kind.fields)), dtype=np.int64))

    assert features.shape == (3, len(feature_names(kind)))
    assert features.dtype == np.float64
    assert np.isfinite(features).all()


@pytest.mark.parametrize("network", ["mobilenet_v3_large", "deit_tiny_16", "resnext50_32x4d"])
def test_kernels_of_real_networks_have_finite_features(network: str) -> None:
    table = KernelTable.of([find_kernels(build(model(network)), RULES)])

    for name, rows in table.configurations.items():
        assert np.isfinite(feature_matrix(kernel_type(name), rows)).all()
