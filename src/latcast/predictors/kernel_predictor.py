"""The predictor of one kernel type: an analytical base, of this platform or others, and a regressor for what that leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.kernels.types import KernelType, kernel_type
from latcast.predictors.analytical import PARTED, POOLED, AnalyticalTerms, fit_nonnegative, term_values
from latcast.predictors.regressors import INTERNAL_REGRESSORS, REGRESSORS, Regressor, fit_regressor

_QUANTITIES = ("flops", "input_elements", "output_elements", "weight_elements", "intensity")


def feature_names(kind: KernelType) -> tuple[str, ...]:
    """Return the names of the columns of :func:`feature_matrix`."""
    return (*kind.fields, *_QUANTITIES, *kind.feature_names)


COLDNESS = "coldness"
"""Feature that is no fact of a kernel but of the network that it runs in (:mod:`latcast.predictors.calibration_terms`)."""

COLD = 0.75
"""Coldness from which on kernels look alike to regressors, that of networks of 2.4 ms: else they know long networks by it."""


def feature_matrix(
    kind: KernelType,
    configurations: np.ndarray,
    names: Sequence[str] | None = None,
    coldness: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Return the features of kernels, (kernels, features), float64, finite.

    FLOPs, elements read, written and of weights; FLOPs per element moved; and what the type adds (blocked MACs,
    remainders against the vector length, tiles).

    Args:
        kind: The type.
        configurations: (kernels, fields).
        names: Which features, in which order; all of them where None. A predictor keeps the names it was trained on, so
            that a feature added later changes nothing for it.
        coldness: Of each kernel, (kernels,), or of all: the feature :data:`COLDNESS`, up to :data:`COLD`, where it is named.
    """
    columns = kind.columns(configurations)
    q = kind.quantities(columns)
    moved = q.input_elements + q.output_elements + q.weight_elements
    parts = [
        *columns.values(), q.flops, q.input_elements, q.output_elements, q.weight_elements, q.flops / np.maximum(moved, 1),
        *kind.features(columns).values(),
    ]  # fmt: skip
    known = feature_names(kind)
    if names is not None and tuple(names) != known:
        by_name = {**dict(zip(known, parts, strict=True)), COLDNESS: np.minimum(coldness, COLD)}
        parts = [by_name[name] for name in names]
    return np.stack([np.broadcast_to(part, len(configurations)) for part in parts], axis=1).astype(np.float64)


ANALYTICAL = "analytical"
"""Way to model a kernel type by its analytical terms alone."""

ANALYTICAL_GBDT = "analytical_gbdt"
"""Way to model it by analytical terms, and boosted trees on the logarithm of the residuals of timed kernels."""

ANALYTICAL_GP = "analytical_gp"
"""By analytical terms and a Gaussian-process correction, learned from whole networks."""

TRANSFERRED = "transferred"
"""By analytical terms with the predictions of other platforms beside them, and boosted trees where they help."""

FEW_SAMPLES = 12
"""Below this many samples a type keeps its analytical terms alone."""

RESIDUAL_LIMIT = 20.0
"""A learned residual may change the analytical latency by at most this factor."""


FAR = 2.0
"""Factor beyond a size's range from which on a kernel is not covered: stages of networks are a factor of 2 apart."""

FARTHEST = 8.0
"""Factor beyond a size's range from which on a kernel counts as one whose type has no predictor."""

FAR_WORK = 4.0
"""As ``FAR``, for FLOPs and for elements moved, which two sizes decide together."""


@dataclass(frozen=True)
class Seen:
    """Facts about the kernels trained on, beside the range of each field.

    Attributes:
        kinds: Field that names a kind (an activation's function) to the codes trained on.
        most_flops, most_elements: Of one kernel: what it computed, and what it read and wrote.
    """

    kinds: Mapping[str, tuple[int, ...]]
    most_flops: float
    most_elements: float

    @classmethod
    def of(cls, type_name: str, configurations: np.ndarray) -> Seen:
        """Return the kinds and most work of configurations, (samples, fields), of a type."""
        kind = kernel_type(type_name)
        flops, elements = _work(kind, configurations)
        kinds = {name: np.unique(configurations[:, kind.fields.index(name)]).tolist() for name in kind.kinds}
        return cls({name: tuple(codes) for name, codes in kinds.items()}, float(flops.max()), float(elements.max()))

    @classmethod
    def union(cls, several: Iterable[Seen]) -> Seen:
        """Return what several predictors of a type were trained on together."""
        known = list(several)
        names = {name for each in known for name in each.kinds}
        kinds = {name: tuple(sorted({code for each in known for code in each.kinds.get(name, ())})) for name in sorted(names)}
        return cls(kinds, max(each.most_flops for each in known), max(each.most_elements for each in known))


@dataclass(frozen=True)
class Familiarity:
    """Kernels compared with those trained on; arrays of booleans, (kernels,).

    Attributes:
        outside: Whether a field is outside the range trained on, or names a kind that was not.
        covered: Whether similar kernels were in the training data: no size is beyond its range by more than a factor ``FAR``, the
            work is at most ``FAR_WORK`` times that of any of them, and its kinds are among theirs.
        extrapolated: Part of a kernel's latency that counts as unpredicted, a float, (kernels,): 0 up to a factor ``FAR`` beyond
            what was trained on, then the logarithm of the factor over that of ``FARTHEST`` (1/3 at first), and 1 from there on.
    """

    outside: np.ndarray
    covered: np.ndarray
    extrapolated: np.ndarray

    @classmethod
    def of_none(cls, count: int) -> Familiarity:
        """Return the familiarity of kernels without a predictor."""
        every = np.ones(count, dtype=bool)
        return cls(every, ~every, every.astype(np.float64))


def _work(kind: KernelType, configurations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the FLOPs, and elements read and written, of kernels."""
    q = kind.quantities(kind.columns(configurations))
    return q.flops, q.input_elements + q.output_elements + q.weight_elements


def kernel_models() -> tuple[str, ...]:
    """Return the names of models that timed kernels teach, plug-ins included."""
    return (ANALYTICAL_GBDT, ANALYTICAL, *sorted(set(REGRESSORS) - INTERNAL_REGRESSORS))


@dataclass(frozen=True)
class KernelPredictor:
    """Latency of kernels of one type.

    Attributes:
        kernel_type: Its name.
        model: One of :func:`kernel_models`, :data:`ANALYTICAL_GP` or :data:`TRANSFERRED`.
        regressor: None where the analytical terms, or the base, stand alone.
        low, high: (fields,) the range of configurations trained on.
        samples: How many distinct configurations it was trained on; 0 where only networks were.
        seen: What else is known of the configurations trained on.
        features: Names of what the regressor sees, in its order; all features of the type where None.
        base: What stands in the place of the platform's analytical terms where it was transferred; None where it was not.
    """

    kernel_type: str
    model: str
    regressor: Regressor | None
    low: np.ndarray
    high: np.ndarray
    samples: int
    seen: Seen
    features: tuple[str, ...] | None = None
    base: TransferredBase | None = None

    def latency_ms(self, analytical: AnalyticalTerms, configurations: np.ndarray) -> np.ndarray:
        """Return the latency of kernels in a network that leaves the caches cold, (kernels,).

        Args:
            analytical, configurations: As for :meth:`latency_by_coldness_ms`.
        """
        return np.asarray(self.latency_by_coldness_ms(analytical, configurations, np.ones(1))[0])

    def latency_by_coldness_ms(self, analytical: AnalyticalTerms, configurations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return the latency of kernels at levels of coldness, (levels, kernels).

        Beyond the range trained on, it grows as arithmetic and bytes do.

        Args:
            analytical: Terms of the platform.
            configurations: (kernels, fields).
            levels: (levels,); they matter to predictors that saw kernels of several.
        """
        configurations, batches = self._in_trained_batches(configurations)
        base_ms = self._base_ms(analytical, configurations, levels) * batches
        if self.regressor is None:
            return base_ms
        kind = kernel_type(self.kernel_type)
        if self.model in (ANALYTICAL_GBDT, ANALYTICAL_GP, TRANSFERRED):
            factor = self._regressed(self.regressor, configurations, levels)
            return np.asarray(base_ms * np.clip(factor, 1 / RESIDUAL_LIMIT, RESIDUAL_LIMIT))
        # Trees do not grow beyond what they were trained on, and lines and networks grow by chance.
        sizes = [name not in kind.kinds for name in kind.fields]
        near = np.where(sizes, np.clip(configurations, self.low, self.high), configurations)
        near_ms = self._regressed(self.regressor, near, levels)
        return np.asarray(near_ms * base_ms / self._base_ms(analytical, near, levels))

    def _regressed(self, regressor: Regressor, configurations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return what the regressor gives at each level, (levels, kernels), or (1, kernels) where it does not see coldness."""
        features = feature_matrix(kernel_type(self.kernel_type), configurations, self.features)
        if self.features is None or COLDNESS not in self.features:
            return regressor.predict(features)[None]
        distinct, place = np.unique(np.minimum(levels, COLD), return_inverse=True)
        repeated = np.tile(features, (len(distinct), 1))
        repeated[:, self.features.index(COLDNESS)] = np.repeat(distinct, len(configurations))
        return regressor.predict(repeated).reshape(len(distinct), len(configurations))[place]

    def _in_trained_batches(self, configurations: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return kernels with no more images than were trained on, and how many such batches they are, (kernels,).

        Libraries convolve one image after another, with the weights read again.
        """
        fields = kernel_type(self.kernel_type).fields
        if not {"batch", "kernel_w"} <= set(fields):
            return configurations, 1.0
        place = fields.index("batch")
        fewer = configurations.copy()
        fewer[:, place] = np.minimum(fewer[:, place], max(self.high[place], 1))
        return fewer, configurations[:, place] / fewer[:, place]

    def _base_ms(self, analytical: AnalyticalTerms, configurations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        if self.base is not None:
            return np.tile(self.base.latency_ms(self.kernel_type, configurations), (len(levels), 1))
        return analytical.latency_by_coldness_ms(kernel_type(self.kernel_type), configurations, levels)

    def familiarity(self, configurations: np.ndarray) -> Familiarity:
        """Compare kernels, (kernels, fields), with those trained on."""
        kind = kernel_type(self.kernel_type)
        outside = (configurations < self.low) | (configurations > self.high)
        # Fields that may be zero are counts and flags, for which zero and one are neighbours.
        sizes, low, high = (np.maximum(values, 1) for values in (configurations, self.low, self.high))
        beyond = np.maximum(sizes / high, low / sizes)
        unlike = beyond > FAR
        for place, name in enumerate(kind.fields):
            if name in kind.kinds:
                outside[:, place] = ~np.isin(configurations[:, place], self.seen.kinds.get(name, ()))
                unlike[:, place], beyond[:, place] = outside[:, place], 1.0
        flops, elements = _work(kind, configurations)
        more = np.maximum(flops / max(self.seen.most_flops, 1.0), elements / max(self.seen.most_elements, 1.0))
        strange = unlike.any(axis=1) | (more > FAR_WORK)
        if self.model == ANALYTICAL_GP:  # whose variance itself grows with the distance
            farthest = np.ones(len(configurations))
        else:
            farthest = np.maximum(beyond.max(axis=1, initial=1.0), more * FAR / FAR_WORK)
        extrapolated = np.where(farthest > FAR, np.minimum(np.log(farthest) / np.log(FARTHEST), 1.0), 0.0)
        return Familiarity(np.asarray(outside.any(axis=1)), np.asarray(~strange), extrapolated)

    def novelty(self, configurations: np.ndarray) -> np.ndarray:
        """Return the novelty of kernels, (kernels,), from 0 to 1: by their sizes where these were learned from whole
        networks, otherwise 1 outside the range."""
        by_sizes = getattr(self.regressor, "novelty", None)  # which a Gaussian process tells
        if by_sizes is not None:
            return np.asarray(by_sizes(feature_matrix(kernel_type(self.kernel_type), configurations, self.features)))
        return self.familiarity(configurations).outside.astype(np.float64)

    def reason(self, configuration: Configuration) -> str:
        """Describe what is most unlike the kernels trained on: "rows 197, trained on 1"."""
        kind = kernel_type(self.kernel_type)
        worst, said = 0.0, ""
        for name, value, low, high in zip(kind.fields, configuration, self.low.tolist(), self.high.tolist(), strict=True):
            if name in kind.kinds:
                if value in self.seen.kinds.get(name, ()):
                    continue
                called = kind.kinds[name][value] if value < len(kind.kinds[name]) else str(value)
                return f"{called}, not trained on"
            factor = max(max(value, 1) / max(high, 1), max(low, 1) / max(value, 1))
            if not low <= value <= high and factor > worst:
                trained = f"{low}" if low == high else f"{low} to {high}"
                worst, said = factor, f"{name} {value}, trained on {trained}"
        if worst <= FAR:
            flops, elements = (float(values[0]) for values in _work(kind, np.array([configuration])))
            for what, work, most in (("FLOPs", flops, self.seen.most_flops), ("elements", elements, self.seen.most_elements)):
                if work > FAR_WORK * most:
                    return f"{work:.1e} {what}, trained on up to {most:.1e}"
        return said


def fit_kernel_predictor(
    name: str,
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    analytical: AnalyticalTerms,
    *,
    coldness: np.ndarray | None = None,
    model: str = ANALYTICAL_GBDT,
    seed: int = 0,
) -> KernelPredictor:
    """Train the predictor of one kernel type.

    Args:
        name: The kernel type.
        configurations: (samples, fields).
        latency_ms: (samples,).
        analytical: Terms already fitted to these samples.
        coldness: (samples,), a feature, too; 1 and none where None.
        model: One of :func:`kernel_models`.
        seed: For bootstrap and shuffling.
    """
    kind = kernel_type(name)
    low, high = configurations.min(axis=0), configurations.max(axis=0)
    names = feature_names(kind) if coldness is None else (*feature_names(kind), COLDNESS)
    at = 1.0 if coldness is None else coldness
    regressor: Regressor | None = None
    if model != ANALYTICAL and len(latency_ms) >= FEW_SAMPLES:
        features = feature_matrix(kind, configurations, names, at)
        if model == ANALYTICAL_GBDT:
            from latcast.predictors.regressors.trees import LogResidual

            base = analytical.latency_ms(kind, configurations, at)
            regressor = LogResidual.fit(features, latency_ms / base, seed=seed)
        else:
            regressor = fit_regressor(model, features, latency_ms, seed=seed)
    return KernelPredictor(
        name, model if regressor is not None else ANALYTICAL, regressor, low, high, len(latency_ms),
        Seen.of(name, configurations), names,
    )  # fmt: skip


FEWEST_OF_A_CLASS = 3
"""Samples below which a class keeps the coefficients of the whole type."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel predictor of another platform.

    Attributes:
        platform: Id of that platform.
        analytical: Its analytical terms; of a bundle only those of the classes of the kernel type.
        predictor: Its kernel predictor.
    """

    platform: str
    analytical: AnalyticalTerms
    predictor: KernelPredictor

    def latency_ms(self, configurations: np.ndarray) -> np.ndarray:
        """Predict kernels on its own platform, (kernels,)."""
        return self.predictor.latency_ms(self.analytical, configurations)


@dataclass(frozen=True)
class TransferredBase:
    """Analytical terms with those of sources beside them, for one kernel type.

    A kernel's latency on a new platform is modelled as

        Σ coefficient · term + Σ coefficient · latency that a source predicts,

    all coefficients non-negative and drawn to those of the whole kernel type where a class has few samples. Where the platforms
    are alike, the source's term carries its staircases over and the analytical terms only correct the balance of computing and
    moving; where they are not, its coefficient falls to zero and what is left is what would have been fitted from scratch.

    Attributes:
        sources: Predictors of other platforms.
        coefficients: Analytical class to (len(TERMS) + sources,); :data:`latcast.predictors.analytical.POOLED` is always there.
    """

    sources: tuple[KernelSource, ...]
    coefficients: Mapping[str, np.ndarray]

    def latency_ms(self, type_name: str, configurations: np.ndarray) -> np.ndarray:
        """Return the latency of kernels, (kernels,)."""
        pooled = self.coefficients[POOLED]
        classes = [name if name in self.coefficients else PARTED.get(name, name) for name in _classes(type_name, configurations)]
        weights = np.stack([self.coefficients.get(name, pooled) for name in classes]) if classes else np.zeros((0, len(pooled)))
        return np.maximum((_design(type_name, configurations, self.sources) * weights).sum(axis=1), 1e-7)


def fit_transferred_base(
    type_name: str,
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    sources: tuple[KernelSource, ...],
) -> TransferredBase:
    """Fit coefficients to timed kernels of the new platform.

    Args:
        type_name: The kernel type.
        configurations: (kernels, fields).
        latency_ms: (kernels,).
        sources: Predictors of other platforms that know the type.
    """
    design = _design(type_name, configurations, sources)
    pooled = fit_nonnegative(design, latency_ms)
    coefficients = {POOLED: pooled}
    classes = np.array(_classes(type_name, configurations))
    for name in np.unique(classes):
        rows = classes == name
        count = int(rows.sum())
        if count >= FEWEST_OF_A_CLASS:
            coefficients[str(name)] = fit_nonnegative(design[rows], latency_ms[rows], pooled, 1e-3 + 0.3 / count)
    return TransferredBase(sources, coefficients)


def _design(type_name: str, configurations: np.ndarray, sources: tuple[KernelSource, ...]) -> np.ndarray:
    terms = term_values(kernel_type(type_name), configurations)
    return np.column_stack([terms, *(source.latency_ms(configurations) for source in sources)])


def _classes(type_name: str, configurations: np.ndarray) -> list[str]:
    kind = kernel_type(type_name)
    return [str(name) for name in kind.throughput_class(kind.columns(configurations))]
