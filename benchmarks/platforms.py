"""Transfer over more than twenty platforms of one machine, and rivals with the same or less measured (LitePred's Tables 4 and 5).

draw               lists what is measured (minutes of computing, no measuring)
list               every platform, and what was measured on it so far
measure NAME...    the pieces of some platforms that are missing; all of them without a name
judge              the results and tables from what was measured
tables             the tables again, from the results that are kept

Judged are the whole pool (a), the pool without predictors of the target's runtime (b), and learning from scratch with the same
kernels; the most similar predictor as it is; and ten whole networks instead of kernels, as HELP has (LitePred §7.3). The result
of each target is kept in its own file, so that judging goes on where it was, as targets become measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks import platforms_campaign
from benchmarks.command import Cpu, print_campaign, say
from benchmarks.judge import Row, by_covariance, by_one_factor, figures, table
from benchmarks.platforms_campaign import (
    PLATFORMS,
    PLATFORMS_FOLDER,
    SPACES,
    BenchPlatform,
    bench_platform,
    kernels,
    pieces,
    profiled_networks,
    progress_of,
    test_networks,
    training_networks,
)
from benchmarks.result_files import keep, kept, write_json
from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, rules_for
from latcast.kernels.search import SingleKernels, find_kernels
from latcast.kernels.types import kernel_type
from latcast.measure.labels import label_error
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.training.adaptation import fitting_rounds, transferred_predictor
from latcast.training.adaptation_rounds import AdaptationRounds
from latcast.training.pool import Pool
from latcast.training.samples import KernelObservation, NetworkSample, TrainingData, collect, known_kernels, stored_kernels

JUDGED = PLATFORMS_FOLDER / "judged"

CASES = ("whole pool", "other runtimes", "from scratch")
"""LitePred's cases (a) and (b) of §7.3.2, and no pool."""

AS_IT_IS, FEW_NETWORKS, ONE_FACTOR = "most similar as it is", "10 networks, regression", "10 networks, one factor"

CURVE_SHARES = (0.05, 0.1, 0.2, 0.4, 1.0)
"""Parts of what was measured that curves are drawn at."""

CURVES = ("openvino-avx2", "litert-1.4", "mnn")
"""Targets of the curves: another instruction set, another version, another runtime."""

FEW = 10
"""Whole networks of a new platform in place of kernels (HELP, LitePred §7.3.1)."""


# Commands

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command()
def draw() -> None:
    """Draw test networks, whole networks and kernels; what was drawn stays."""
    platforms_campaign.draw(lambda name: say(f"drawing {name}"))


@app.command(name="list")
def listed() -> None:
    """Print the platforms and their pieces."""
    for each in PLATFORMS:
        done = ", ".join(f"{name} {found['added']} in {found['seconds']:.0f} s" for name, found in progress_of(each).items())
        print(f"{each.name:<22} {'warm-up' if each.warm_up else 'target':<8} {done or 'nothing yet'}")


@app.command()
def measure(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Platforms, as list names them.")] = None,
    cpu: Cpu = None,
) -> None:
    """Measure what is missing."""
    for name in names or [each.name for each in PLATFORMS]:
        platforms_campaign.measure(bench_platform(name), cpu, print_campaign(name))


@app.command()
def judge() -> None:
    """Judge every platform that was measured, keep the results and print the tables."""
    keep("platforms", judge_all())
    tables()


@app.command()
def tables() -> None:
    """Print the tables from the kept results, without what was measured."""
    print("\n\n".join((targets_table(), rivals_table(), curves_table(), warm_ups_table())))


# Measurements


@dataclass(frozen=True)
class Measured:
    """Measurements of a platform.

    Attributes:
        bench, platform, rules: The platform.
        isolated: Kernels timed alone, in the order in which they were drawn.
        profiled: Kernels timed inside networks, network by network.
        training_networks: Whole networks to learn from.
        tests: Networks to judge on, with their labels.
        label_error: Of the tests, percent.
        seconds: Of measuring kernels and networks.
    """

    bench: BenchPlatform
    platform: Platform
    rules: FusionRules
    isolated: tuple[KernelObservation, ...]
    profiled: tuple[KernelObservation, ...]
    training_networks: tuple[NetworkSample, ...]
    tests: tuple[NetworkSample, ...]
    label_error: float
    seconds: float

    @property
    def kernels(self) -> int:
        """Number of different kernels that were timed."""
        return len({each.kernel.key for each in (*self.isolated, *self.profiled)})

    @property
    def runs_of_networks(self) -> int:
        """Number of networks in which kernels were timed."""
        return len({each.network for each in self.profiled})

    def first(self, networks: int, kernels: int) -> TrainingData:
        """Return what there was to learn from after so many profiled networks and so many kernels timed alone."""
        keys = set(list(dict.fromkeys(each.network for each in self.profiled))[:networks])
        inside = tuple(each for each in self.profiled if each.network in keys)
        return TrainingData(isolated=self.isolated[:kernels], profiled=inside, networks=self.training_networks)

    def judge(self, predictor: PlatformPredictor) -> dict[str, Any]:
        """Return the figures of a predictor, perhaps of another platform, on the test networks."""
        kernels = [_kernels_of(sample.reference, predictor.platform) for sample in self.tests]
        return figures(predictor.estimate(kernels).latency_ms, np.array([sample.latency_ms for sample in self.tests]))

    def actual(self, keys: Sequence[str]) -> np.ndarray:
        """Return the measured milliseconds of test networks or of networks learned from, (networks,)."""
        known = {sample.reference.key: sample.latency_ms for sample in (*self.training_networks, *self.tests)}
        return np.array([known[key] for key in keys])


@cache
def _graph(reference: Reference) -> Graph:
    return build(reference)


@cache
def _network_kernels(reference: Reference, runtime: str, precision: str) -> tuple[Kernel, ...]:
    return find_kernels(_graph(reference), rules_for(runtime, precision))


def _kernels_of(reference: Reference, platform: Platform) -> tuple[Kernel, ...]:
    return _network_kernels(reference, platform.runtime, platform.precision)


def load(bench: BenchPlatform) -> Measured:
    """Read what the store of a platform holds.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    finished = progress_of(bench)
    if any(name not in finished for name, _ in pieces(bench)):
        raise MeasurementError(f"{bench.name} is not measured yet: python -m benchmarks platforms measure {bench.name}")
    platform = bench.platform()
    learned_from = {reference.key: reference for reference in training_networks()}
    tests = {reference.key: reference for reference in test_networks()}
    with bench.store() as store:
        known = known_kernels(stored_kernels(store, platform), SingleKernels(bench.rules))
        labels = {label.reference.key: label for label in store.labels(platform=platform.id, role="network")}
        inside = _kept(f"inside-{bench.name}", lambda: _timed_inside(bench, platform, store))
    isolated = []
    for reference in kernels(bench):
        name = reference.space.removeprefix("kernel/")
        row = kernel_type(name).configuration(reference.parameters)
        latency_ms = known.get(name, {}).get(row, float("nan"))
        if latency_ms == latency_ms:
            isolated.append(KernelObservation(Kernel(name, row, name, (), ()), latency_ms))

    profiled = tuple(
        KernelObservation(Kernel(name, tuple(row), name, (), ()), latency_ms, network)
        for name, row, latency_ms, network in inside
    )

    def samples(references: Mapping[str, Reference]) -> tuple[NetworkSample, ...]:
        found = ((reference, labels[key]) for key, reference in references.items() if key in labels)
        return tuple(NetworkSample(reference, _kernels_of(reference, platform), label.latency_ms) for reference, label in found)

    error = label_error([label for key, label in labels.items() if key in tests]).percent
    seconds = sum(found["seconds"] for name, found in finished.items() if not name.startswith("labels"))
    return Measured(
        bench, platform, bench.rules, tuple(isolated), profiled, samples(learned_from), samples(tests), error, seconds
    )


def _timed_inside(bench: BenchPlatform, platform: Platform, store: Store) -> list[tuple[str, list[int], float, str]]:
    """Return kernels timed inside networks, in the order of measuring: type, configuration, milliseconds and network.

    Finding the kernels of all networks takes half a minute, so that the result is kept.
    """
    keys = {reference.key for reference in profiled_networks(bench)}
    found = collect(store.measurements(platform=platform.id, role="network", keys=keys), bench.rules, build).profiled
    return [(each.kernel.kernel_type, list(each.kernel.configuration), each.latency_ms, each.network) for each in found]


# Judging


def trained(measured: Measured, pool: Pool, data: TrainingData | None = None) -> tuple[PlatformPredictor, AdaptationRounds]:
    """Train as ``latcast device adapt`` does: transferred from a pool, or from scratch without one.

    Args:
        data: Part of the measurements; all by default.
    """
    rounds = fitting_rounds(measured.rules, pool)
    if data is None:
        data = TrainingData(isolated=measured.isolated, profiled=measured.profiled, networks=measured.training_networks)
    return transferred_predictor(data, measured.platform, measured.rules, rounds), rounds


def judged(measured: Measured, pool: Pool, warm_ups: Sequence[Measured]) -> dict[str, Any]:
    """Judge all cases and rivals on one target."""
    same_runtime_left_out = pool.without(lambda platform: platform.runtime == measured.platform.runtime)
    pools = {"whole pool": pool, "other runtimes": same_runtime_left_out, "from scratch": Pool.of([])}
    cases: dict[str, Any] = {}
    for case, sources in pools.items():
        predictor, rounds = trained(measured, sources)
        unlike = rounds.unlike and len(sources) > 0
        cases[case] = {**measured.judge(predictor), "unlike": unlike, "transfer": predictor.card["transfer"]}
        if case == "whole pool":
            nearest = pool.predictors[rounds.similar["conv"][0].platform]
            cases[AS_IT_IS] = {**measured.judge(nearest), "source": nearest.platform.id}
    cases |= _from_few_networks(measured, warm_ups)
    families = {sample.family for sample in measured.tests}
    return {
        "platform": measured.platform.id, "label_error": measured.label_error, "kernels": measured.kernels,
        "profiled_networks": measured.runs_of_networks, "timed_alone": len(measured.isolated),
        "training_networks": len(measured.training_networks), "seconds": measured.seconds, "networks": len(measured.tests),
        "families": len(families - set(SPACES)), "spaces": len(families & set(SPACES)), "cases": cases,
        "measured_ms": {sample.reference.name: sample.latency_ms for sample in measured.tests},
    }  # fmt: skip


def _from_few_networks(measured: Measured, warm_ups: Sequence[Measured]) -> dict[str, Any]:
    """Judge forecasts from ten whole networks in place of kernels, with the latencies of the warm-up platforms."""
    known = [{sample.reference.key for sample in (*each.training_networks, *each.tests)} for each in (measured, *warm_ups)]
    common = set.intersection(*known)
    support = [reference.key for reference in training_networks() if reference.key in common][:FEW]
    tests = [sample.reference.key for sample in measured.tests if sample.reference.key in common]
    rows = np.log([each.actual([*support, *tests]) for each in warm_ups])
    first, new, actual = np.arange(len(support)), np.log(measured.actual(support)), measured.actual(tests)
    names = [each.platform.id for each in warm_ups]
    regression = by_covariance(rows, first, new)
    one_factor, best = by_one_factor(rows, first, new)
    return {
        FEW_NETWORKS: {**figures(np.exp(regression[len(support) :]), actual), "support": len(support)},
        ONE_FACTOR: {**figures(np.exp(one_factor[len(support) :]), actual), "support": len(support), "source": names[best]},
    }


def curve(measured: Measured, pool: Pool) -> list[dict[str, Any]]:
    """Return errors by the share of kernels that was measured; whole networks are all in each part."""
    found = []
    for share in CURVE_SHARES:
        data = measured.first(round(share * measured.runs_of_networks), round(share * len(measured.isolated)))
        kernels = len({each.kernel.key for each in (*data.isolated, *data.profiled)})
        point: dict[str, Any] = {"share": share, "kernels": kernels}
        for case, sources in (("whole pool", pool), ("from scratch", Pool.of([]))):
            point[case] = measured.judge(trained(measured, sources, data)[0])
        found.append(point)
    return found


def fewer_times(points: Sequence[Row]) -> float | None:
    """Return how many times fewer kernels the pool needs for the least error from scratch; None if it never comes so low.

    From scratch needs the smallest size at which it has that error. Between sizes the pool's error is interpolated over the
    logarithm of the size. If its smallest size suffices, the factor is a lower bound.
    """
    sizes = np.log([point["kernels"] for point in points])
    scratch = np.array([point["from scratch"]["mape"] for point in points])
    errors = np.minimum.accumulate([point["whole pool"]["mape"] for point in points])
    needed = sizes[int(np.argmin(scratch))]
    wanted = scratch.min()
    reached = np.flatnonzero(errors <= wanted)
    if not len(reached):
        return None
    place = int(reached[0])
    if place == 0:
        return float(np.exp(needed - sizes[0]))
    share = (errors[place - 1] - wanted) / (errors[place - 1] - errors[place])
    return float(np.exp(needed - (sizes[place - 1] + share * (sizes[place] - sizes[place - 1]))))


def _kept(name: str, make: Callable[[], Any]) -> Any:
    path = JUDGED / f"{name}.json"
    if not path.exists():
        write_json(path, make())
    return json.loads(path.read_text(encoding="utf-8"))


def judge_all() -> dict[str, Any]:
    """Judge every target that is measured.

    Results of targets stay in :data:`JUDGED`; delete that folder after measuring a platform again.

    Raises:
        MeasurementError: A warm-up platform is not measured yet.
    """
    everything = []
    for bench in PLATFORMS:
        with suppress(MeasurementError):
            everything.append(load(bench))
    warm_ups = [measured for measured in everything if measured.bench.warm_up]
    if len(warm_ups) < sum(bench.warm_up for bench in PLATFORMS):
        raise MeasurementError("a warm-up platform is not measured yet: python -m benchmarks platforms list")
    bundles = [JUDGED / f"{measured.bench.name}.bundle" for measured in warm_ups]
    for measured, path in zip(warm_ups, bundles, strict=True):
        if not path.exists():
            JUDGED.mkdir(parents=True, exist_ok=True)
            save_bundle(trained(measured, Pool.of([]))[0], path)
    pool = Pool.of([load_bundle(path) for path in bundles])
    targets: dict[str, Any] = {}
    for measured in everything:
        if not measured.bench.warm_up:
            name = measured.bench.name
            targets[name] = _kept(name, partial(judged, measured, pool, warm_ups))
            for case in CASES:
                found = targets[name]["cases"][case]
                found["convolutions_from"] = found.pop("transfer").get("conv", {}).get("sources", [])
            if name in CURVES:
                targets[name]["curve"] = _kept(f"curve-{name}", partial(curve, measured, pool))
    if not targets:
        raise MeasurementError("no target is measured yet: python -m benchmarks platforms list")
    names = (*CASES, AS_IT_IS, FEW_NETWORKS, ONE_FACTOR)
    figures = ("mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman")
    means = {
        name: {key: float(np.mean([target["cases"][name][key] for target in targets.values()])) for key in figures}
        for name in names
    }
    means["measured"] = {
        key: float(np.mean([target[key] for target in targets.values()])) for key in ("label_error", "kernels", "seconds")
    }
    own = {
        each.bench.name: {
            "platform": each.platform.id, "kernels": each.kernels, "training_networks": len(each.training_networks),
            "seconds": each.seconds, "label_error": each.label_error, **each.judge(pool.predictors[each.platform.id]),
        }
        for each in warm_ups
    }  # fmt: skip
    return {"warm_ups": own, "targets": targets, "mean": means}


# Tables


def _of_case(name: str) -> str:
    """Return the format of a case's figures in a row that holds them by name."""
    return f"{{{name}[mape]:.1f}} / {{{name}[within_5]:.0f}} / {{{name}[within_10]:.0f}}"


def targets_table() -> str:
    """Return a line for each target, with the pool and without, and their mean."""
    found = kept("platforms")
    rows = [{**target, **target["cases"], "name": name} for name, target in found["targets"].items()]
    rows.append({**found["mean"], **found["mean"]["measured"], "name": "**mean**"})
    columns = {"target": "{name}", "label error %": "{label_error:.1f}", "kernels": "{kernels:.0f}"}
    by_case = {f"{case}: MAPE / ±5 / ±10 %": _of_case(case) for case in CASES}
    return table(rows, {**columns, **by_case})


def rivals_table() -> str:
    """Return the means over targets of all cases and rivals."""
    rows = [{"name": name, **each} for name, each in kept("platforms")["mean"].items() if name != "measured"]
    columns = {
        "mean over targets": "{name}", "MAPE %": "{mape:.1f}", "±5 %": "{within_5:.0f}", "±10 %": "{within_10:.0f}",
        "Spearman": "{spearman:.3f}",
    }  # fmt: skip
    return table(rows, columns)


def curves_table() -> str:
    """Return the errors by the number of kernels, and how many times fewer the pool needs."""
    rows = []
    for name, target in kept("platforms")["targets"].items():
        points = target.get("curve", ())
        fewer = fewer_times(points) if points else None
        told = "never" if fewer is None else f"{fewer:.1f}"
        rows += [{"name": name, **point, "fewer": told if point is points[-1] else ""} for point in points]
    columns = {
        "target": "{name}", "kernels": "{kernels}", "from scratch: MAPE / ±5 / ±10 %": _of_case("from scratch"),
        "whole pool": _of_case("whole pool"), "times fewer": "{fewer}",
    }  # fmt: skip
    return table(rows, columns)


def warm_ups_table() -> str:
    """Return a line for each warm-up platform."""
    columns = {
        "warm-up": "{name}", "platform": "{platform}", "kernels": "{kernels}", "seconds": "{seconds:.0f}",
        "label error %": "{label_error:.1f}",
        "its own: MAPE / ±5 / ±10 %": "{mape:.1f} / {within_5:.0f} / {within_10:.0f}",
    }  # fmt: skip
    return table([{"name": name, **each} for name, each in kept("platforms")["warm_ups"].items()], columns)
