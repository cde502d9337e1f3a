"""Analytical terms: what a kernel computes and moves, times non-negative coefficients by kernel class.

The coefficients are fitted to timed kernels, or to whole networks as sums over their kernels. The inverse of a coefficient is a
throughput: effective GFLOP/s and GB/s by class, microseconds a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType

import numpy as np

from latcast.kernels.types import KernelType, kernel_type
from latcast.kernels.types.kernel_type import missed
from latcast.kernels.types.movement import COPY_CLASSES
from latcast.records import ACTIVATION_BYTES, WEIGHT_BYTES

TERMS = ("flops", "moved", "weights", "count")
"""FLOPs; elements read and written; weights read; one a kernel."""

LOOPS = "loops"
"""Inner loops of a convolution: one a filter tap and output, over a group's input channels."""

GATHERED = "gathered"
"""Elements of its input that a dense convolution reads again for its further taps, whatever the number of its outputs."""

COLD_TERMS = ("cold_weights", "cold_count")
"""Weights read, and one a kernel, times the kernel's coldness (:mod:`latcast.predictors.calibration_terms`)."""

DEPTH = "depth"
"""FLOPs in a row for one output element: a GPU's kernel takes at least as long as one output."""

IN_TURN: Mapping[str, int] = {f"flops_in_turn_of_{threads}": threads for threads in range(2, 9)}
"""Term of a platform of so many threads to their number: FLOPs of products of activations, and those that threads could do while
they wait for the one with the most matrices (:func:`flops_in_turn`)."""

LAYOUT_TERMS = ("laid_in_near", "laid_in_far", "laid_out_far")
"""Elements of an input whose copy misses the first cache, the second; of an output whose copy misses the second."""

NEAR_CACHE, FAR_CACHE = (128, 4), (512, 16)
"""Sets and ways of caches: 32 KiB and 512 KiB, as a Cortex-A55 and about as larger cores have."""

LIMITS = ("compute", "memory", "overhead")
"""Parts that may dominate a kernel's time: arithmetic, reading and writing, or its start."""

LIMIT_OF_TERM: Mapping[str, str] = {
    "flops": "compute", LOOPS: "compute", DEPTH: "compute", "moved": "memory", "weights": "memory", "count": "overhead",
    "cold_weights": "memory", "cold_count": "overhead",
    **dict.fromkeys((GATHERED, *LAYOUT_TERMS), "memory"), **dict.fromkeys(IN_TURN, "compute"),
}  # fmt: skip

POOLED = "any"
"""The class that estimates kernels without a class: fitted on everything."""

UNLIKE = "other"
"""The class of operators that no type describes. They have nothing in common, so that none of them tells what another takes: they
are priced as any kernel is."""

IN_BLOCKS = ("conv", "depthwise_conv", "grouped_conv")
"""Kernel types that runtimes compute in blocks of channels."""

PARTED: Mapping[str, str] = {
    **dict.fromkeys(("softmax strided", "softmax strided narrow"), "softmax"),
    **{name: "copy" for name in COPY_CLASSES if name != "copy"},
}
"""Fine classes to the coarser one that stands in for them where a profile has no sample of theirs."""

_COARSE_PREFIXES = (
    ("conv 1x1", "conv 1x1"), ("conv 3x3", "conv kxk"), ("conv kxk", "conv kxk"), ("conv first", "conv first"),
    ("conv grouped narrow", "conv grouped narrow"),
    ("conv on a vector", "linear vector"), ("depthwise pointwise", "depthwise pointwise"),
    ("depthwise wide", "depthwise wide"), ("depthwise", "depthwise"),
    *((f"activation {function}", "exponential") for function in ("sigmoid", "silu", "tanh", "mish", "elu", "softplus", "exp")),
    *((f"activation {function}", "error function") for function in ("gelu", "erf")),
    ("activation hard", "hard activation"), ("activation", "activation"), ("max pool", "pool"), ("average pool", "pool"),
    ("resize cubic", "resize"),
    *PARTED.items(),
)  # fmt: skip

_COARSER = {
    **dict.fromkeys(("conv grouped single", "conv grouped narrow"), "conv grouped"), "depthwise wide": "depthwise",
    **dict.fromkeys(("error function", "exponential", "hard activation"), "activation"),
    "layer norm of_images": "layer norm", "activation floating": "activation",
    **dict.fromkeys(("conv winograd6", "conv grouped winograd", "conv grouped winograd6"), "conv winograd"),
}  # fmt: skip
"""Coarse classes to those that stand in for them where nothing was learned of theirs."""


def coarse_class(name: str) -> str:
    """Return the coarse class whose coefficients stand in for a class without its own.

    >>> coarse_class("conv 3x3 strided unaligned"), coarse_class("depthwise 3x3"), coarse_class("add")
    ('conv kxk', 'depthwise', 'add')
    >>> coarse_class("activation relu"), coarse_class("activation gelu")
    ('activation', 'error function')
    """
    if name.startswith("activation") and name.endswith("floating"):
        return "activation floating"
    return next((coarse for prefix, coarse in _COARSE_PREFIXES if name.startswith(prefix)), name)


def _stand_ins(name: str) -> tuple[str, ...]:
    """Return the classes whose coefficients a class may have, its own first."""
    coarse = coarse_class(name)
    narrower = name.replace("depthwise wide", "depthwise kxk").replace("strided narrow", "strided")
    return tuple(found for found in (name, narrower, coarse, _COARSER.get(coarse)) if found is not None)


def term_values(
    kind: KernelType,
    configurations: np.ndarray,
    terms: Sequence[str] = TERMS,
    coldness: np.ndarray | float = 1.0,
    block: int = 0,
) -> np.ndarray:
    """Return the terms of kernels, shape (kernels, terms).

    What is fused behind counts too: its FLOPs for each output element and the further activations it reads.

    Args:
        kind: Their type.
        configurations: (kernels, fields).
        terms: Names: :data:`TERMS`, :data:`COLD_TERMS`, :data:`LOOPS`, :data:`GATHERED`, :data:`DEPTH`, :data:`IN_TURN`,
            :data:`LAYOUT_TERMS`.
        coldness: Of each kernel, (kernels,), or of all.
        block: Channels that convolutions are computed at a time, as :attr:`AnalyticalTerms.block`.
    """
    columns = kind.columns(configurations)
    q = kind.quantities(columns)
    fused_inputs = columns["fused_inputs"]
    computed = q.flops * in_whole_blocks(columns, block) if block and kind.name in IN_BLOCKS else q.flops
    # Fused operators work on what the kernel holds in registers; their FLOPs are charged, their traffic is not.
    flops = computed + columns["fused_flops"] * q.output_elements
    moved = q.input_elements + q.output_elements * (1 + fused_inputs)
    values = {"flops": flops, "moved": moved, "weights": q.weight_elements, "count": np.ones_like(flops)}
    if not set(COLD_TERMS).isdisjoint(terms):
        values |= {"cold_weights": coldness * q.weight_elements, "cold_count": coldness * np.ones_like(flops)}
    if LOOPS in terms:
        taps = columns["kernel_h"] * columns["kernel_w"] if "groups" in columns and "kernel_w" in columns else 0.0
        values[LOOPS] = taps * q.output_elements
    if GATHERED in terms:
        # Of a convolution's FLOPs two go to each element that is read for an output.
        read = q.flops / 2 / columns["out_channels"] if kind.name == "conv" else 0.0
        values[GATHERED] = np.maximum(read - q.input_elements, 0.0)
    if DEPTH in terms:
        values[DEPTH] = q.flops / np.maximum(q.output_elements, 1.0)
    for name in IN_TURN.keys() & terms:
        values[name] = flops_in_turn(columns, flops, IN_TURN[name]) if kind.name in ("matmul", "einsum") else 0.0 * flops
    if not set(LAYOUT_TERMS).isdisjoint(terms):
        convolves = "in_h" in columns and "in_channels" in columns
        values |= layout_terms(columns) if convolves else dict.fromkeys(LAYOUT_TERMS, np.zeros_like(flops))
    return np.stack([values[name] for name in terms], axis=1)


def in_whole_blocks(columns: Mapping[str, np.ndarray], block: int) -> np.ndarray:
    """Return the factor by which a convolution's FLOPs grow where its channels fill whole blocks, (kernels,).

    Inputs of fewer channels a group than a block are read as they are: images, and the channels of a depthwise convolution.
    """
    inputs, outputs = columns["in_channels"] / columns["groups"], columns["out_channels"]
    filled = np.where(inputs < block, 1.0, np.ceil(inputs / block) * block / inputs)
    return np.asarray(filled * np.ceil(outputs / block) * block / outputs)


def flops_in_turn(columns: Mapping[str, np.ndarray], flops: np.ndarray, threads: int) -> np.ndarray:
    """Return the FLOPs that so many threads could do in the time of products of activations, (kernels,).

    PyTorch Mobile gives each thread whole matrices of a batch, and all to one thread where they are fewer than 4 or have fewer
    than 4 rows, 16 columns or 16 inner elements (``bmm_out_or_baddbmm_`` in ATen's ``LinearAlgebra.cpp``).

    Args:
        columns: ``batch``, ``rows``, ``inner`` and ``columns``, each (kernels,).
        flops: (kernels,).
        threads: Of the platform.
    """
    matrices = columns["batch"]
    shared = (matrices >= 4) & (columns["rows"] >= 4) & (columns["columns"] >= 16) & (columns["inner"] >= 16)
    return np.asarray(flops * np.where(shared, np.ceil(matrices / threads), matrices) * threads / matrices)


def layout_terms(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns of ``LAYOUT_TERMS`` of convolutions, each (kernels,).

    A runtime that keeps channels first copies every map for a library that wants them last (PyTorch Mobile for XNNPACK), and
    back. Both loops write in order and read with a stride: a map's size on the way in, the channels on the way out. Strides that
    are multiples of powers of two miss the caches.

    Args:
        columns: ``in_h``, ``in_w``, ``in_channels`` and the same of the output, each (kernels,).
    """
    read, written = (columns[f"{side}_h"] * columns[f"{side}_w"] for side in ("in", "out"))
    channels_in, channels_out = columns["in_channels"], columns["out_channels"]
    # A single pixel, or a single channel, lies alike in both layouts.
    laid_in = np.where((read > 1) & (channels_in > 1), read * channels_in, 0)
    laid_out = np.where((written > 1) & (channels_out > 1), written * channels_out, 0)
    near, far, back = (
        missed(channels_in, read, NEAR_CACHE),
        missed(channels_in, read, FAR_CACHE),
        missed(written, channels_out, FAR_CACHE),
    )
    return dict(zip(LAYOUT_TERMS, (laid_in * near, laid_in * far, laid_out * back), strict=True))


@dataclass(frozen=True)
class AnalyticalTerms:
    """Fitted coefficients, in milliseconds per unit of each term.

    Attributes:
        coefficients: Class name, fine or coarse (:func:`coarse_class`), to an array, (terms,); :data:`POOLED` is always there.
        terms: What the coefficients are of.
        block: Channels that convolutions are computed at a time, so that their FLOPs count for whole blocks, those of zeros with
            them; 0 where they count for the channels alone.
    """

    coefficients: Mapping[str, np.ndarray]
    terms: tuple[str, ...] = TERMS
    block: int = 0

    def latency_ms(self, kind: KernelType, configurations: np.ndarray, coldness: np.ndarray | float = 1.0) -> np.ndarray:
        """Return the latency of kernels, (kernels,); classes without coefficients use their coarse class or ``POOLED``."""
        return np.maximum(self.term_ms(kind, configurations, coldness).sum(axis=1), 1e-7)

    def latency_by_coldness_ms(self, kind: KernelType, configurations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return the latency of kernels at levels of coldness, (levels, kernels): it is linear in them."""
        term_ms, cold = self.term_ms(kind, configurations), np.isin(self.terms, COLD_TERMS)
        return np.maximum(term_ms[:, ~cold].sum(axis=1) + levels[:, None] * term_ms[:, cold].sum(axis=1), 1e-7)

    def term_ms(self, kind: KernelType, configurations: np.ndarray, coldness: np.ndarray | float = 1.0) -> np.ndarray:
        """Return each term's part of the latency of kernels, shape (kernels, terms)."""
        values = term_values(kind, configurations, self.terms, coldness, self.block)
        classes = kind.throughput_class(kind.columns(configurations))
        pooled = self.coefficients[POOLED]
        table = {
            name: next((self.coefficients[known] for known in _stand_ins(str(name)) if known in self.coefficients), pooled)
            for name in set(classes)
        }
        weights = np.stack([table[name] for name in classes]) if len(classes) else np.zeros((0, len(self.terms)))
        return np.asarray(values * weights)

    def knows(self, kind: KernelType, configurations: np.ndarray) -> np.ndarray:
        """Return whether each kernel's class has coefficients."""
        classes = kind.throughput_class(kind.columns(configurations))
        return np.array([any(known in self.coefficients for known in _stand_ins(name)) for name in classes], dtype=bool)

    def to_json(self) -> dict[str, list[float]]:
        return {name: [float(value) for value in values] for name, values in sorted(self.coefficients.items())}

    def over(self, terms: Sequence[str]) -> AnalyticalTerms:
        """Return the terms with more columns, whose coefficients are 0."""
        place = [self.terms.index(name) if name in self.terms else -1 for name in terms]
        padded = {name: np.append(values, 0.0)[place] for name, values in self.coefficients.items()}
        return AnalyticalTerms(padded, tuple(terms), self.block)


def fit_nonnegative(
    design: np.ndarray,
    target: np.ndarray,
    prior: np.ndarray | None = None,
    strength: float = 1e-3,
    prior_scale: np.ndarray | None = None,
) -> np.ndarray:
    """Fit non-negative coefficients that minimise a robust squared percentage error, drawn towards a prior.

    The error of an observation is ``(A w - y) / sqrt(y · A w)``: to first order the percentage error, yet alike for twice as
    much and half as much. Dividing by ``y`` alone, a few observations measured far too short would be worth more than all
    others and pull every coefficient to zero. Errors beyond :data:`HUBER` count linearly (Huber). Solved by iteratively
    reweighted non-negative least squares.

    Args:
        design: (observations, terms).
        target: (observations,), positive.
        prior: (terms,); zeros where None.
        strength: Weight of the prior against the mean squared error.
        prior_scale: (terms,) by what a coefficient's distance from its prior is multiplied; by its share of a latency where
            None or NaN, so that strength has no unit.

    Returns:
        (terms,); a column of zeros gets its prior.
    """
    prior = np.zeros(design.shape[1]) if prior is None else prior
    weight = target**-0.5 / np.median(target) ** 0.5
    fitted = _weighted(design, target, weight, prior, strength, prior_scale)
    for _ in range(REWEIGHTINGS):
        predicted = np.maximum(design @ fitted, target / 50)
        weight = 1 / np.sqrt(target * predicted)
        error = np.abs(np.log(predicted / target))
        weight *= np.sqrt(np.minimum(1.0, HUBER / np.maximum(error, 1e-12)))
        before, fitted = fitted, _weighted(design, target, weight, prior, strength, prior_scale)
        if np.allclose(before, fitted, rtol=1e-4, atol=0):
            break
    return fitted


HUBER = 0.3
"""Logarithmic error from which on an observation counts linearly."""

REWEIGHTINGS = 12

START_REACH = 10.0
"""Times the pooled cost of being started from which on that of a class needs samples that show it."""


def _weighted(
    design: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    prior: np.ndarray,
    strength: float,
    prior_scale: np.ndarray | None,
) -> np.ndarray:
    """Solve one non-negative least squares: ``min Σ (weight (A w - y))² / n + strength Σ ((w - p) · prior_scale)²``."""
    from scipy.optimize import nnls

    observations = len(target)
    rows = design * weight[:, None]
    scale = np.sqrt((rows**2).mean(axis=0))
    used = scale > 0
    result = prior.copy()
    if not used.any():
        return result
    held = scale if prior_scale is None else np.where(np.isnan(prior_scale), scale, prior_scale)
    scaled = rows[:, used] / scale[used] / np.sqrt(observations)
    ridge = np.sqrt(strength) * np.diag(held[used] / scale[used])
    right = np.concatenate([weight * target / np.sqrt(observations), np.sqrt(strength) * prior[used] * held[used]])
    solution, _ = nnls(np.vstack([scaled, ridge]), right, maxiter=20 * scaled.shape[1] + 1000)
    result[used] = solution / scale[used]
    return result


def fit_from_kernels(
    samples: Mapping[str, tuple[np.ndarray, np.ndarray]],
    terms: Sequence[str] = TERMS,
    coldness: Mapping[str, np.ndarray] = MappingProxyType({}),
    block: int = 0,
) -> AnalyticalTerms:
    """Fit coefficients to timed kernels.

    Args:
        samples: Kernel type to (configurations, latency in milliseconds).
        terms: What to fit, as for :func:`term_values`.
        coldness: Kernel type to the coldness of each; 1 where it is not named.
        block: As :attr:`AnalyticalTerms.block`.
    """
    by_class: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for name, (configurations, latency_ms) in samples.items():
        kind = kernel_type(name)
        values = term_values(kind, configurations, terms, coldness.get(name, 1.0), block)
        classes = kind.throughput_class(kind.columns(configurations))
        for found in sorted(set(classes)):  # so that the same samples give the same coefficients in every process
            rows = classes == found
            by_class.setdefault(str(found), []).append((values[rows], latency_ms[rows]))
    everything = [part for parts in by_class.values() for part in parts]
    if not everything:
        return AnalyticalTerms({POOLED: np.zeros(len(terms))}, tuple(terms), block)
    pooled = fit_nonnegative(
        np.concatenate([design for design, _ in everything]), np.concatenate([target for _, target in everything])
    )
    # What stands in for the parts that have no samples: the plain kernels, or where there are none, the other parts.
    unsampled = set(PARTED.values()).difference(by_class)
    for part, whole in PARTED.items():
        if part in by_class and whole in unsampled:
            by_class[whole] = [*by_class.get(whole, []), *by_class[part]]
    starts = np.isin(terms, ("count", "cold_count"))
    most_start = START_REACH * pooled[starts].sum()
    coefficients = {POOLED: pooled}
    for name, parts in by_class.items():
        if name == UNLIKE:
            continue
        design = np.concatenate([design for design, _ in parts])
        target = np.concatenate([target for _, target in parts])
        # Few samples lean on the pooled coefficients, many on themselves.
        held = 1e-3 + 0.3 / len(target)
        coefficients[name] = fit_nonnegative(design, target, pooled, held)
        if coefficients[name][starts].sum() > most_start > 0:
            # Long kernels do not show what a start costs: a large one would stand in for what the other terms lack.
            scale = np.where(starts, 1 / most_start, np.nan)
            coefficients[name] = fit_nonnegative(design, target, pooled, held, scale)
    return AnalyticalTerms(coefficients, tuple(terms), block)


@dataclass(frozen=True)
class ClassThroughput:
    """Rates of a device on one class of kernels: inverse coefficients, each as if its term were all of a kernel's latency.

    None where time does not grow with the term, or where the precision, and so the number of bytes, is not stated.

    Attributes:
        kernel_class: Its name; "any" is fitted on all kernels together.
        gflop_per_s: 10⁹ floating-point operations a second, a multiply-accumulate counted as two.
        activation_gb_per_s: 10⁹ bytes of activations read and written a second.
        weight_gb_per_s: 10⁹ bytes of weights read a second.
        kernel_us: Microseconds that any kernel of the class takes.
    """

    kernel_class: str
    gflop_per_s: float | None
    activation_gb_per_s: float | None
    weight_gb_per_s: float | None
    kernel_us: float

    @property
    def rates(self) -> tuple[float | None, float | None, float | None]:
        """GFLOP/s, GB/s of activations, GB/s of weights."""
        return self.gflop_per_s, self.activation_gb_per_s, self.weight_gb_per_s

    def to_json(self) -> dict[str, str | float | None]:
        return asdict(self)


def throughputs(analytical: AnalyticalTerms, precision: str) -> list[ClassThroughput]:
    """Return a platform's throughput at a precision, by class of kernel, all kernels together first."""
    activation_bytes, weight_bytes = ACTIVATION_BYTES.get(precision), WEIGHT_BYTES.get(precision)
    pooled = analytical.coefficients[POOLED]
    found = []
    for name in sorted(analytical.coefficients, key=lambda name: (name != POOLED, name)):
        # A class whose kernels lack a term (activations have no weights) keeps the pooled coefficient, which says nothing.
        lacking = (analytical.coefficients[name] == pooled) & (name != POOLED) & ~np.isin(analytical.terms, list(IN_TURN))
        own = np.where(lacking, 0.0, analytical.coefficients[name])
        of = dict(zip(analytical.terms, own.tolist(), strict=True))
        for term in COLD_TERMS:
            of[term.removeprefix("cold_")] += of.get(term, 0.0)
        of["flops"] += sum(of.get(term, 0.0) for term in IN_TURN if name != POOLED)
        found.append(
            ClassThroughput(
                name,
                _rate(of["flops"], 1.0),
                _rate(of["moved"], activation_bytes),
                _rate(of["weights"], weight_bytes),
                1e3 * of["count"],
            )
        )
    return found


def _rate(unit_ms: float, scale: float | None) -> float | None:
    """Return the rate in 10⁹ units a second, from milliseconds a unit of the term."""
    return scale * 1e-6 / unit_ms if scale is not None and unit_ms > 0 else None


def compared(
    first: Sequence[ClassThroughput], second: Sequence[ClassThroughput]
) -> list[tuple[ClassThroughput | None, ClassThroughput | None]]:
    """Pair the classes of both, in the first one's order; None where one lacks a class."""
    other = {each.kernel_class: each for each in second}
    pairs: list[tuple[ClassThroughput | None, ClassThroughput | None]] = [
        (each, other.pop(each.kernel_class, None)) for each in first
    ]
    return [*pairs, *((None, each) for each in other.values())]
