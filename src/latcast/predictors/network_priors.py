"""Prior coefficients of analytical terms by class of kernel, for platforms that are learned from whole networks.

A network's latency is one number for dozens of kernels: prior knowledge separates what their terms cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.chips.chip_names import chip_of
from latcast.kernels.rules import unit_kind
from latcast.predictors.analytical import GATHERED, IN_TURN, LAYOUT_TERMS, LOOPS, TERMS, coarse_class
from latcast.predictors.network_terms import SMOOTH_DEVIATION
from latcast.records import Platform

PRIOR_MS: Mapping[str, tuple[float, float, float, float]] = {
    "cpu": (5e-8, 5e-7, 5e-7, 3e-3),
    "cpu int8": (2e-8, 3e-7, 2e-7, 3e-3),
    "gpu": (5e-9, 1e-7, 1e-7, 2e-2),
}
"""Milliseconds a FLOP, an element moved, a weight read, a kernel, of a phone: a core (20 GFLOP/s, 8 GB/s), a GPU (10 times)."""

PRIOR_LOOP_MS = 1.5e-8
"""Milliseconds an inner loop of a dense convolution, less than a FLOP: XNNPACK finds the pixels of a tap through a table made
beforehand."""

PRIOR_LAYOUT_MS = (2e-6, 6e-6, 2e-6)
"""Milliseconds an element of ``LAYOUT_TERMS``: a second cache answers in 3 ns, memory in 100 with a dozen reads under way."""

GENERIC_CYCLES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "cpu": {"in order": (4.5, 30), "out of order": (0.95, 7), "apple": (1.1, 1.5)},
    "cpu int8": {"in order": (2, 34), "out of order": (0.75, 11), "apple": (0.7, 5.5)},
}
"""Cycles a FLOP, and an inner loop (a tap's address and bounds), of TFLite's grouped convolutions, which one core computes number
by number whatever the threads; by the sort of device and the kind of core."""

NARROW, NARROW_BITS = 1.7, 128
"""How many times as many cycles a core out of order takes whose sums of products fill no more than so many bits in a cycle, as it
starts about three instructions in one (Cortex-A75); where the bits are not known, it is a small core (Apple's)."""

KNOWN_DEVIATION = 0.2
"""Prior deviation of such cycles where the core and its clock are known."""

GENERIC_GHZ = 2.0
"""Clock of a core that is not known: one in order, as much slower or faster as the other kernels of the platform are."""

PRIOR_OVERHEAD_MS: Mapping[str, float] = {"cpu": 0.05, "cpu int8": 0.05, "gpu": 0.5}
"""Milliseconds a network."""

BOUND_BY_MEMORY = frozenset(
    {
        "linear vector", "activation", "add", "broadcast", "batch norm", "pool", "global pool", "reduce", "concat", "split",
        "copy", "channel shuffle", "transpose", "softmax", "layer norm", "resize", "depthwise pointwise",
        "broadcast floating",
    }
)  # fmt: skip
"""Classes that read and write at the device's speed and do little else, so that the prior says much of them."""

FREE_CLASSES = frozenset({"conv grouped", "conv grouped single", "conv grouped split"})
"""Classes that some runtimes run by a generic path, computing tens of times slower than others do."""

BATCHED = ("matmul", "einsum")
"""Products of two activations, as fast a FLOP as those with weights."""

QNNPACK = ("pytorch", "cpu int8")
"""The runtime and sort of device that computes with that library, and with loops of its own what the library lacks."""

CONVERTED_FLOP_MS: Mapping[str, float] = {
    "add floating": 8e-6, "batch norm floating": 4e-6, "activation floating": 1.3e-6, "softmax": 1.3e-6,
}  # fmt: skip
"""Milliseconds a FLOP of such loops, which convert each number from an integer and back: forty cycles a number, for which the
classes do one FLOP, two, and about six."""

SOFTMAX_FLOP = (8.0, 18.0)
"""Cost of a FLOP of PyTorch's softmax in fp32, one exponential after another, against one of a dense convolution: on cores in
order, on others."""

CLAMPED = 0.03
"""Cost of an element that QNNPACK only cuts off (ReLU), sixteen in an instruction, against one that is computed."""

SCALAR_CLASSES = frozenset({"error function", "exponential", "hard activation", "layer norm", "softmax"})
"""Classes that some runtimes compute one element after another, or in many passes, at a hundredth of the speed of others."""

NATIVE_GROUPS = frozenset({("pytorch", "cpu"), ("pytorch", "cpu int8")})
"""Runtimes whose library runs groups by the kernels of dense convolutions (XNNPACK, QNNPACK)."""

LOOPING = frozenset({("tflite", "cpu"), ("tflite", "cpu int8")})
"""Runtimes and units whose grouped convolutions are loops over taps."""

GATHERING = frozenset({("tflite", "cpu"), ("pytorch", "cpu int8")})
"""Runtimes and units whose convolutions take longer a FLOP where few outputs share what is gathered from the map."""

CHANNELS_FIRST = frozenset({("pytorch", "cpu")})
"""Runtimes and units that copy the maps of every convolution from one layout into another."""

THREADS_UNSHARED: Mapping[tuple[str, str], Mapping[str, float]] = {
    **dict.fromkeys(
        (("tflite", "cpu"), ("tflite", "cpu int8")), dict.fromkeys(("batch norm", "broadcast", "concat", "pool", "split"), 1.0)
    ),
    QNNPACK: dict.fromkeys(("conv first", "conv grouped", "depthwise wide"), 0.5),
    ("pytorch", "cpu"): dict.fromkeys(BATCHED, -0.2),
}
"""Exponents of the number of threads by which a class costs more beside those that threads share evenly, by runtime and sort of
device: 1 where four threads are no faster than one, 0.5 where they are twice as fast, below 0 where they wait less for memory.
Chosen on Pixel 4 and Galaxy A03s."""

LOOKED_UP = frozenset({"exponential", "hard activation"})
"""Activations that such a library computes as it reads, in int8 from a table of 256 bytes, whatever the function."""

MEMORY_DEVIATION = 0.4
USUAL_DEVIATION = 2.0
FREE_DEVIATION = 20.0
GENERIC_DEVIATION = 1.0
PRODUCT_DEVIATION = 0.2
SOFTMAX_DEVIATION = 0.4
PACKED_DEVIATION = 0.5
"""Prior deviation of what convolutions move beside copies between layouts, which networks of few widths confuse with FLOPs."""

LINEAR, GROUPED = ("linear matrix", "conv 1x1"), ("conv grouped", "conv grouped single")
SAME_CODE: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("pytorch", "cpu"): (LINEAR, BATCHED, *(("conv kxk", name) for name in GROUPED)), QNNPACK: (BATCHED,),
    ("tflite", "cpu"): (LINEAR, GROUPED), ("tflite", "cpu int8"): (LINEAR, GROUPED, BATCHED),
}  # fmt: skip
"""Pairs of classes, by runtime and sort of device, that one routine computes: their coefficients are the same multiples of their
priors, and of GROUPED those of FLOPs and loops too. LINEAR is one routine in PyTorch's int8 as well; lineages held out are
predicted better there where each class has its own price."""

UNBENT: Mapping[tuple[str, str], frozenset[str]] = {QNNPACK: frozenset({"linear"})}
"""Kernel types, by runtime and sort of device, of which close sizes share no factor: what the narrow layers of small transformers
show would be carried on to layers of ten times their width."""

SMOOTH: Mapping[tuple[str, str], float] = dict.fromkeys((("tflite", "cpu"), ("tflite", "cpu int8")), 0.2)
"""Standard deviation of the logarithm of the factor that close sizes share, by runtime and sort of device."""

SCALAR_DEVIATION = 100.0
PRIOR_OVERHEAD_DEVIATION = 2.0
"""Standard deviation of a coefficient, as a part of its prior."""

DEPTHWISE_FLOP: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("tflite", "cpu"): {"depthwise": 3.0, "depthwise wide": 3.0}, ("pytorch", "cpu"): {"depthwise wide": 8.0},
    QNNPACK: {"depthwise": 3.0, "depthwise wide": 24.0},
}  # fmt: skip
"""Cost of a depthwise FLOP against one of a dense convolution, by runtime and sort of device: its input is used once for each
filter tap, and above 25 taps XNNPACK and QNNPACK compute one of eight channels."""

WIDE_BY_CORE: Mapping[str, float] = {"in order": 3.0, "out of order": 4 / 3, "apple": 1.0}
"""Factor on that of QNNPACK above 25 taps, by kind of core, as six phones show: one in order waits for each sum."""

DEPTHWISE_MOVED = 0.5
"""Cost of an element that a depthwise convolution of TFLite's moves in fp32, against one that other kernels move."""

LAYER_NORM_PASSES = 6.0
"""Passes over its elements of a layer normalisation under TFLite in int8, which has none that is fused."""

OWN_PATHS: Mapping[str, str] = {"tflite": "conv grouped", "pytorch": "depthwise wide"}
"""Runtimes on CPUs to the class that they compute much more slowly than others."""


def device_sort(platform: Platform) -> str:
    """Return the key of the tables above."""
    if unit_kind(platform.unit) == "gpu":
        return "gpu"
    return "cpu int8" if platform.precision == "int8" else "cpu"


def core_kind(platform: Platform) -> str:
    """Return the kind of a platform's cores: "in order", "apple", or else, and where it is not known, "out of order"."""
    chip = chip_of(platform.device, unit_kind="cpu")
    core = chip.cluster(platform.unit) if chip is not None else None
    if chip is None or core is None or core.in_order is None:
        return "out of order"
    return "in order" if core.in_order else "apple" if chip.vendor == "Apple" else "out of order"


def network_term_names(platform: Platform) -> tuple[str, ...]:
    """Return the terms that whole networks of a platform teach."""
    unit = platform.runtime, device_sort(platform)
    loops = (LOOPS,) if unit in LOOPING else ()
    gathered, layouts = (GATHERED,) if unit in GATHERING else (), LAYOUT_TERMS if unit in CHANNELS_FIRST else ()
    turns = (name for name, threads in IN_TURN.items() if unit in NATIVE_GROUPS and threads == platform.threads)
    return (*TERMS, *loops, *gathered, *turns, *layouts)


def smooth_deviations(platform: Platform) -> Callable[[str], float]:
    """Return the function from a kernel type to the deviation of the factor that its close sizes share on a platform."""
    unit = platform.runtime, device_sort(platform)
    return lambda name: 0.0 if name in UNBENT.get(unit, ()) else SMOOTH.get(unit, SMOOTH_DEVIATION)


OF_CPUS = (*TERMS, LOOPS, GATHERED, *IN_TURN, *LAYOUT_TERMS)
"""All terms that whole networks of some CPU teach."""


def prior_coefficients(platform: Platform, classes: list[str], terms: Sequence[str] = TERMS) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of classes, and the overhead behind them, before anything was measured on a device.

    A network's latency is one number for dozens of kernels: prior knowledge separates what their terms cost. It is
    coarse: how many FLOPs go by in the time of moving an element or of starting a kernel, and which classes keep to that. Only
    ratios count; the level comes from the measured networks.

    Args:
        platform: What kind of device it is.
        classes: Names from :func:`latcast.predictors.analytical.coarse_class`.
        terms: As of :func:`network_term_names`.

    Returns:
        (classes x terms + 1,) milliseconds, right up to a common factor, and their standard deviations as parts of them.
    """
    sort = device_sort(platform)
    rows, deviations = [], []
    kept = [OF_CPUS.index(term) for term in terms]
    for name in classes:
        row = _prior_row(name, sort, platform)[kept]
        for turn in IN_TURN.keys() & terms if name in BATCHED else ():
            row[terms.index(turn)], row[0] = row[0], 0.0
        rows.append(row)
        own = _deviations(name, sort, platform.runtime)
        # What makes FLOPs dear on a generic path makes its loops dear.
        further = [own[0], own[1], *[own[0]] * len(IN_TURN), *[USUAL_DEVIATION] * len(LAYOUT_TERMS)]
        deviations.append(np.array([*own, *further])[kept])
    prior = np.concatenate([*rows, [PRIOR_OVERHEAD_MS[sort]]])
    return prior, np.concatenate([*deviations, [PRIOR_OVERHEAD_DEVIATION]])


def known_coefficients(platform: Platform, classes: Sequence[str], terms: Sequence[str] = TERMS) -> np.ndarray:
    """Return coefficients that follow from the clock of a platform's cores, whatever its other kernels take.

    Args:
        platform, classes, terms: As for :func:`prior_coefficients`.

    Returns:
        (classes x terms + 1,) milliseconds; NaN for all that do not follow from it.
    """
    known = np.full((len(classes), len(terms)), np.nan)
    sort = device_sort(platform)
    chip = chip_of(platform.device, unit_kind="cpu") if sort != "gpu" and platform.runtime == "tflite" else None
    core = chip.cluster(platform.unit) if chip is not None else None
    if chip is not None and core is not None and core.ghz and core.in_order is not None:
        kind = core_kind(platform)
        generic = np.isin(classes, list(FREE_CLASSES))
        slower = NARROW if not core.in_order and (core.fma_bits or NARROW_BITS) <= NARROW_BITS else 1.0
        for term, cycles in zip(("flops", LOOPS), GENERIC_CYCLES[sort][kind], strict=True):
            if term in terms:
                known[generic, terms.index(term)] = slower * cycles / (core.ghz * 1e6)
    return np.append(known, np.nan)


def _prior_row(name: str, sort: str, platform: Platform) -> np.ndarray:
    """Return the coefficients of a class, of :data:`OF_CPUS`, as its runtime executes it."""
    tflite = sort != "gpu" and platform.runtime == "tflite"
    row = np.array([*PRIOR_MS[sort], PRIOR_LOOP_MS, 0.0, *[0.0] * len(IN_TURN), *PRIOR_LAYOUT_MS])
    if (platform.runtime, sort) in CHANNELS_FIRST and name == "softmax":
        row[0] *= SOFTMAX_FLOP[core_kind(platform) != "in order"]
    if tflite and name in FREE_CLASSES:
        row[[0, OF_CPUS.index(LOOPS)]] = np.array(GENERIC_CYCLES[sort]["in order"]) / (GENERIC_GHZ * 1e6) * platform.threads
    if tflite and sort == "cpu int8" and name == "layer norm":
        row[:2] *= LAYER_NORM_PASSES
    if (platform.runtime, sort) == QNNPACK:
        row[0] = CONVERTED_FLOP_MS.get(name, row[0])
        row[1] *= CLAMPED if name == "activation" else 1.0
        row[3] *= platform.threads  # All are woken for each kernel.
        row[0] *= WIDE_BY_CORE[core_kind(platform)] if name == "depthwise wide" else 1.0
    row[0] *= DEPTHWISE_FLOP.get((platform.runtime, sort), {}).get(name, 1.0)
    row[1] *= DEPTHWISE_MOVED if tflite and sort == "cpu" and name.startswith("depthwise") else 1.0
    row *= platform.threads ** THREADS_UNSHARED.get((platform.runtime, sort), {}).get(name, 0.0)
    row[OF_CPUS.index(GATHERED)] = row[1]
    return row


def _deviations(name: str, sort: str, runtime: str) -> list[float]:
    """Return prior deviations of a class's coefficients: wide for a generic path's arithmetic, and where it copies.

    In int8 a product takes less of a kernel and moving bytes more, so that only what is known of moving separates the two.
    """
    name = coarse_class(name)
    native = (runtime, sort) in NATIVE_GROUPS
    if (runtime, sort) == QNNPACK and name in CONVERTED_FLOP_MS:
        return [GENERIC_DEVIATION, *[MEMORY_DEVIATION] * 3]
    if native and name == "softmax":
        return [SOFTMAX_DEVIATION, *[MEMORY_DEVIATION] * 3]
    moving = MEMORY_DEVIATION if name in BOUND_BY_MEMORY or (native and name in LOOKED_UP) else USUAL_DEVIATION
    if name in SCALAR_CLASSES and not native:
        return [SCALAR_DEVIATION, moving, moving, moving]
    if name in FREE_CLASSES and not native:
        return [GENERIC_DEVIATION if sort != "gpu" and runtime == "tflite" else FREE_DEVIATION, moving, moving, moving]
    if name in BATCHED:
        beside = MEMORY_DEVIATION if sort == "cpu int8" else moving
        return [PRODUCT_DEVIATION, beside, beside, moving]
    if (runtime, sort) in CHANNELS_FIRST and name.startswith(("conv", "depthwise")):
        return [USUAL_DEVIATION, PACKED_DEVIATION, USUAL_DEVIATION, USUAL_DEVIATION]
    if sort == "cpu int8" and moving == USUAL_DEVIATION:
        return [USUAL_DEVIATION, MEMORY_DEVIATION, MEMORY_DEVIATION, USUAL_DEVIATION]
    return [moving] * 4
