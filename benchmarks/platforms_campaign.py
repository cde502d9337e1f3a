"""Many platforms on one machine, and what is measured on each: runtime, version, instruction-set cap and precision.

Five warm-up platforms are measured richly and make the pool; the others are targets of a minute of kernels each. All run the same
test networks. One store a platform, resumable by pieces; what is measured is drawn beforehand, so that no time of a measuring
core goes into drawing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.campaigns import FOLDER
from benchmarks.isa_caps import capped_variables
from benchmarks.result_files import write_json
from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.kernels.rules import FusionRules, rules_for
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.settings import KERNEL_PLAN, MeasurePlan, WorkerSettings
from latcast.records import Platform, Reference
from latcast.training.profiling import OPERATOR_PLAN, WHOLE_PLAN

PLATFORMS_FOLDER = FOLDER / "platforms"

LIBRARIES = FOLDER / "libraries"
"""Folder of other versions, a folder each, named as pip names them (``onnxruntime-1.20.1``)."""

REPOSITORY = Path(__file__).parents[1]

TARGET_SEED, WARM_UP_SEED = 0, 1

PLANNED_KERNELS: Mapping[int, int] = {TARGET_SEED: 2500, WARM_UP_SEED: 5000}
"""Kernels that rounds are planned for, by seed; their beginning is more than any platform can measure in its time."""

LABEL_PLAN = MeasurePlan(rounds=3, runs_per_round=5, warmup_runs=2, max_ms_per_round=120.0)

TRAINING_PLAN = replace(WHOLE_PLAN, batch_size=5)

PROFILED_PLAN = replace(OPERATOR_PLAN, batch_size=5)

LABEL_SECONDS = 60.0
"""Most for one pass over the test networks."""

WHOLE_NETWORKS, WHOLE_MACS, WHOLE_WEIGHTS = 40, 3e8, 8e6
"""Whole networks that are timed as such, the same on every platform, from the training mix: how many, and how large at most."""

PROFILED_NETWORKS, PROFILED_MACS, PROFILED_WEIGHTS = 400, 6e8, 1e7
"""Networks in which kernels are timed by the runtime's profiler, from the training mix: how many are drawn, and how large at
most."""

TEST_MACS, TEST_WEIGHTS = 6e8, 2e7

PUBLISHED_TESTS = (
    "squeezenet1_1", "regnet_y_400mf", "regnet_x_400mf", "mobilenet_v2_0_5", "mobilenet_v2", "mnasnet0_5", "mnasnet_a1",
    "proxylessnas_mobile", "efficientnet_lite0", "efficientnet_b0", "ghostnet_x0_5", "ghostnet_x1_0", "mobilevit_xxs",
)  # fmt: skip

DRAWN_TESTS: Mapping[str, int] = {
    "alexnet": 1, "vgg": 1, "swin": 1,
    "ofa_mobilenet_v3": 3, "ofa_proxylessnas": 2, "nas_bench_201": 2, "bignas": 2,
}  # fmt: skip
"""Families whose published members are too large, and search spaces: members of at most :data:`TEST_MACS`, how many of each."""

TEST_SEED = 5

SPACES = ("ofa_mobilenet_v3", "ofa_proxylessnas", "nas_bench_201", "bignas")


@dataclass(frozen=True)
class BenchPlatform:
    """One platform.

    Attributes:
        name: In this benchmark.
        runtime, precision: As in platform ids.
        cap: Newest instruction set that it sees, one of :data:`benchmarks.isa_caps.CAPS`; empty: all.
        library: Folder below :data:`LIBRARIES` with another version.
        warm_up: True for platforms of the pool.
        imports: Modules that its worker imports first.
        profiler: True where kernels can be timed inside networks; otherwise they are timed alone.
    """

    name: str
    runtime: str
    precision: str = "fp32"
    cap: str = ""
    library: str = ""
    warm_up: bool = False
    imports: tuple[str, ...] = ()
    profiler: bool = True

    def settings(self, cpu: int | None = None) -> WorkerSettings:
        """Return the settings of its worker.

        Raises:
            MeasurementError: The machine cannot be capped, or the library's folder is missing.
        """
        variables = dict(capped_variables(self.cap)) if self.cap else {}
        return WorkerSettings(
            self.runtime, precision=self.precision, qualifiers=(self.cap,) if self.cap else (),
            cpus=None if cpu is None else (cpu,), realtime=True, variables=variables, imports=self.imports,
            library_path=str((LIBRARIES / self.library).absolute()) if self.library else "",
        )  # fmt: skip

    @property
    def rules(self) -> FusionRules:
        return rules_for(self.runtime, self.precision)

    @property
    def seed(self) -> int:
        return WARM_UP_SEED if self.warm_up else TARGET_SEED

    def store(self) -> Store:
        PLATFORMS_FOLDER.mkdir(parents=True, exist_ok=True)
        return Store(PLATFORMS_FOLDER / f"{self.name}.sqlite")

    def platform(self) -> Platform:
        """Return the id that its worker reported.

        Raises:
            MeasurementError: Nothing was measured yet.
        """
        with self.store() as store:
            found = list(store.platforms())
        if not found:
            raise MeasurementError(f"nothing was measured on {self.name}; measure it: python -m benchmarks platforms measure")
        return Platform.parse(found[0])


PLATFORMS: tuple[BenchPlatform, ...] = (
    BenchPlatform("onnxruntime", "onnxruntime", warm_up=True),
    BenchPlatform("openvino", "openvino", warm_up=True),
    BenchPlatform("litert", "litert", warm_up=True),
    BenchPlatform("ncnn", "ncnn", warm_up=True),
    BenchPlatform("onnxruntime-int8", "onnxruntime", "int8", warm_up=True),
    BenchPlatform("onnxruntime-avx2", "onnxruntime", cap="avx2"),
    BenchPlatform("openvino-2024", "openvino", library="openvino-2024.1.0"),
    BenchPlatform("litert-avx2", "litert", cap="avx2"),
    BenchPlatform("ncnn-avx2", "ncnn", cap="avx2"),
    BenchPlatform("mnn", "mnn"),
    BenchPlatform("openvino-int8", "openvino", "int8"),
    BenchPlatform("onnxruntime-1.20", "onnxruntime", library="onnxruntime-1.20.1"),
    BenchPlatform("openvino-avx2", "openvino", cap="avx2"),
    BenchPlatform("litert-1.4", "litert", library="ai-edge-litert-1.4.0", profiler=False),
    BenchPlatform("litert-int8", "litert", "int8"),
    BenchPlatform("onnxruntime-sse42", "onnxruntime", cap="sse42"),
    BenchPlatform("mnn-avx2", "mnn", cap="avx2"),
    BenchPlatform("openvino-bf16", "openvino", "bf16"),
    BenchPlatform("litert-avx", "litert", cap="avx"),
    BenchPlatform(
        "tflite-2.14", "tflite", library="tflite-runtime-2.14.0", imports=("benchmarks.tflite_runtime",), profiler=False
    ),
    BenchPlatform("onnxruntime-int8-avx2", "onnxruntime", "int8", cap="avx2"),
    BenchPlatform("ncnn-sse42", "ncnn", cap="sse42"),
)  # fmt: skip

LABELS = (("labels1", LABEL_SECONDS), ("labels2", LABEL_SECONDS))

WARM_UP_SECONDS: Mapping[str, float] = {"operators": 70.0, "kernels": 25.0, "networks": 8.0}

TARGET_SECONDS: Mapping[str, float] = {"operators": 42.0, "kernels": 12.0, "networks": 6.0}
"""Seconds of measuring: of kernels inside networks, of kernels alone, of whole networks. Without a profiler the first is spent on
kernels alone, too."""


def pieces(platform: BenchPlatform) -> list[tuple[str, float]]:
    """Return what is measured on a platform, in order, and for how many seconds; the test networks come first and last."""
    seconds = dict(WARM_UP_SECONDS if platform.warm_up else TARGET_SECONDS)
    if not platform.profiler:
        seconds["kernels"] += seconds.pop("operators")
    return [LABELS[0], *seconds.items(), LABELS[1]]


def bench_platform(name: str) -> BenchPlatform:
    """Return the platform of this name.

    Raises:
        MeasurementError: There is none.
    """
    for each in PLATFORMS:
        if each.name == name:
            return each
    raise MeasurementError(f"no platform of this benchmark is called '{name}'; there are {', '.join(p.name for p in PLATFORMS)}")


def draw(watch: Callable[[str], None] = lambda text: None) -> None:
    """Write the lists of what is measured: test networks, whole networks, and kernels by fusion rules and seed."""
    PLATFORMS_FOLDER.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], list[Reference]]] = {"tests": _drawn_tests, "company": _drawn_training_networks}
    makers |= {f"profiled-{seed}": partial(_drawn_profiled, seed) for seed in (WARM_UP_SEED, TARGET_SEED)}
    for name, make in makers.items():
        if not _list_path(name).exists():
            watch(name)
            write_json(_list_path(name), [reference.to_json() for reference in make()])
    for each in sorted(PLATFORMS, key=lambda platform: not platform.warm_up):
        name = _kernel_list(each)
        if not _list_path(name).exists():
            watch(name)
            write_json(_list_path(name), [reference.to_json() for reference in _drawn_kernels(each)])


def _kernel_list(platform: BenchPlatform) -> str:
    # bf16 has the rules of fp32, and int8 its own only where a file says so.
    own = "-int8" if platform.rules != rules_for(platform.runtime, "fp32") else ""
    return f"kernels-{platform.runtime}{own}-{platform.seed}"


def _drawn_kernels(platform: BenchPlatform) -> list[Reference]:
    """Draw what an adaptation to an unknown platform begins with: convolutions five times as often as other kernels."""
    from latcast.spaces.kernel_zoo import kernel_zoo
    from latcast.training.adaptation_rounds import AdaptationRounds
    from latcast.training.pool import Pool

    zoo = kernel_zoo(platform.rules, seed=platform.seed)
    rounds = AdaptationRounds(platform.rules, zoo, PLANNED_KERNELS[platform.seed], Pool.of([]), seed=platform.seed)
    return [item.reference for item in rounds.beginning()]


def _drawn_tests() -> list[Reference]:
    from latcast.spaces.catalogue import SPACES as ALL_SPACES
    from latcast.spaces.catalogue import model

    found = [model(name) for name in PUBLISHED_TESTS]
    for name, count in DRAWN_TESTS.items():
        fitting = (each for each in ALL_SPACES.get(name).sample(60, TEST_SEED) if _no_larger(each, TEST_MACS, TEST_WEIGHTS))
        found += [each for each, _ in zip(fitting, range(count), strict=False)]
    return found


def _drawn_training_networks() -> list[Reference]:
    from latcast.spaces.training_mix import training_mix

    mix = training_mix(4 * WHOLE_NETWORKS, TEST_SEED)
    return [each for each in mix if _no_larger(each, WHOLE_MACS, WHOLE_WEIGHTS)][:WHOLE_NETWORKS]


def _drawn_profiled(seed: int) -> list[Reference]:
    from latcast.spaces.training_mix import training_mix

    mix = training_mix(PROFILED_NETWORKS, TEST_SEED + 1 + seed)
    return [each for each in mix if _no_larger(each, PROFILED_MACS, PROFILED_WEIGHTS)]


def _no_larger(reference: Reference, macs: float, weights: float) -> bool:
    from latcast.graph.operators import graph_macs
    from latcast.spaces import build

    graph = build(reference)
    return graph_macs(graph) <= macs and graph.parameter_count <= weights


def _list_path(name: str) -> Path:
    return PLATFORMS_FOLDER / f"{name}.json"


def drawn(name: str) -> list[Reference]:
    """Read a list that :func:`draw` wrote.

    Raises:
        MeasurementError: It was not drawn.
    """
    try:
        return [Reference.from_json(each) for each in json.loads(_list_path(name).read_text(encoding="utf-8"))]
    except FileNotFoundError:
        raise MeasurementError(f"found no {_list_path(name)}; draw it first: python -m benchmarks platforms draw") from None


def test_networks() -> list[Reference]:
    """Return the networks that every platform is judged on."""
    return drawn("tests")


def training_networks() -> list[Reference]:
    """Return whole networks to learn from, the same on every platform, in the order of measuring."""
    return drawn("company")  # as the lists on disk are called


def kernels(platform: BenchPlatform) -> list[Reference]:
    """Return the kernels of a platform in the order of measuring."""
    return drawn(_kernel_list(platform))


def profiled_networks(platform: BenchPlatform) -> list[Reference]:
    """Return the networks in which kernels are timed, in the order of measuring."""
    return drawn(f"profiled-{platform.seed}")


def _pieces_path(platform: BenchPlatform) -> Path:
    return PLATFORMS_FOLDER / f"{platform.name}.pieces.json"


def progress_of(platform: BenchPlatform) -> dict[str, dict[str, Any]]:
    """Return the finished pieces of a platform: the seconds that each took and the records that it added."""
    path = _pieces_path(platform)
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def measure(platform: BenchPlatform, cpu: int | None, watch: Callable[[Progress], None]) -> None:
    """Measure every piece of a platform that is not finished; run again after a kill, it goes on."""
    settings = platform.settings(cpu)
    if platform.imports:
        # A worker finds this package wherever it was started from.
        paths = [settings.library_path, str(REPOSITORY)]
        settings = replace(settings, variables={**settings.variables, "PYTHONPATH": ":".join(path for path in paths if path)})
    planned: Mapping[str, Callable[[], list[CampaignItem]]] = {
        "kernels": lambda: [CampaignItem(reference, "kernel", KERNEL_PLAN) for reference in kernels(platform)],
        "operators": lambda: [CampaignItem(reference, plan=PROFILED_PLAN) for reference in profiled_networks(platform)],
        "networks": lambda: [CampaignItem(reference, plan=TRAINING_PLAN) for reference in training_networks()],
    }
    finished = progress_of(platform)
    for piece, budget_s in pieces(platform):
        if piece in finished:
            continue
        items = planned.get(piece, lambda: [CampaignItem(reference, plan=LABEL_PLAN) for reference in test_networks()])()
        start = time.monotonic()
        with platform.store() as store:
            report = Campaign(
                store, settings, items, budget_s=budget_s, processes=2 if piece == "labels2" else 1,
                progress=watch,
            ).run()  # fmt: skip
        finished[piece] = {
            "seconds": round(time.monotonic() - start, 1), "added": report.added, "failed": len(report.failures),
            "missing": report.missing,
        }  # fmt: skip
        write_json(_pieces_path(platform), finished)
