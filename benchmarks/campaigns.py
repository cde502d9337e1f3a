"""The measurements behind the accuracy tables: one folder a platform, resumable, in pieces.

A platform's folder holds a home in which ``latcast profile`` was run as a user runs it, a store of the test networks' labels,
and, for the comparison of what is learned from, a store for each. Labels are taken in several passes, before and after the
profile, so that they are spread over time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.isa_caps import capped_variables
from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.graph.operators import graph_macs
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.labels import Label
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.predictors.profiling import Stage, measure_for_training
from latcast.records import Measurement, Platform, Reference
from latcast.spaces import build
from latcast.spaces.catalogue import SPACES
from latcast.spaces.families.variants import VariantFamily
from latcast.spaces.training_mix import published_networks, unseen_families

FOLDER = Path(".latcast/bench")

LEARN_FROM_SEEDS = {"operators": 0, "kernels": 1, "networks": 2}

LEARN_FROM_SECONDS = 300.0
"""Measuring time at which they are compared."""

PROFILE_MINUTES = 10.0
"""Budget of the ``latcast profile`` that is judged."""

LABEL_PROCESSES, LABEL_ROUNDS = 4, 3
"""Passes over the test networks, each a process of its own, and rounds in each: a label is the median of all rounds."""

TEST_SEED, TESTS_PER_FAMILY, PUBLISHED_PER_FAMILY = 0, 3, 2

MOST_MACS, MOST_WEIGHTS = 20e9, 150e6
"""Larger test networks are left out: half a second a run in fp32 on the machine that the README speaks of, and 600 MB."""


def label_plan(rounds: int = LABEL_ROUNDS) -> MeasurePlan:
    """How a test network is measured in one process."""
    return MeasurePlan(rounds=rounds, runs_per_round=6, warmup_runs=3, max_ms_per_round=300.0)


@dataclass(frozen=True)
class Bench:
    """One platform to be judged."""

    runtime: str
    precision: str = "fp32"
    cpu: int | None = None
    suffix: str = ""
    threads: int = 1
    cap: str = ""
    """Newest instruction set that its processes see, one of :data:`benchmarks.isa_caps.CAPS`; empty: all."""

    @property
    def name(self) -> str:
        threads = f"-{self.threads}threads" if self.threads > 1 else ""
        cap = f"-{self.cap}" if self.cap else ""
        return f"{self.runtime}-{self.precision}{threads}{cap}{self.suffix}"

    @property
    def unit(self) -> str:
        """As in platform ids: ``cpu1``, ``cpu1+avx2``."""
        return "+".join([f"cpu{self.threads}", *([self.cap] if self.cap else [])])

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that its processes get in addition."""
        return capped_variables(self.cap) if self.cap else {}

    @property
    def results_name(self) -> str:
        """Name of its files of results, the same whichever networks judged it."""
        return self.name.replace("-outsiders", "")

    @property
    def settings(self) -> WorkerSettings:
        """Those of the commands that a user types."""
        from latcast.cli.options import worker_settings

        cpus = "" if self.cpu is None else str(self.cpu)
        settings = worker_settings(self.runtime, precision=self.precision, cpus=cpus, unit=self.unit)
        return replace(settings, variables=self.variables)

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def home(self) -> Path:
        """``LATCAST_HOME`` of the profile."""
        return self.folder / "home"

    def store(self, what: str) -> Store:
        """Measurements of "labels", or of what is learned from."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Store(self.folder / f"{what}.sqlite")

    def platform(self, what: str = "labels") -> Platform:
        """The id that the platform's worker reported.

        Raises:
            MeasurementError: Nothing was measured yet.
        """
        with self.store(what) as store:
            found = list(store.platforms())
        if not found:
            raise MeasurementError(f"found no measurements in {self.folder}; take them: python -m benchmarks accuracy")
        return Platform.parse(found[0])

    def latcast(self, *arguments: str) -> dict[str, Any]:
        """Runs a latcast command in the platform's home and gives the JSON that it prints; progress goes to standard error.

        Raises:
            MeasurementError: It failed.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "latcast", *arguments, "--json"]
        environment = {**os.environ, **self.variables, "LATCAST_HOME": str(self.home.absolute())}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise MeasurementError(f"latcast {' '.join(arguments)} ended with {done.returncode}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@cache
def test_networks() -> tuple[Reference, ...]:
    """Real networks of families no member of which is ever trained on: at most three of each, their sizes drawn at random.

    Up to two are published members, drawn regardless of size; the others are variants with widths, depths and resolution drawn
    as in :mod:`latcast.spaces.families.variants`. The same ones for everybody.
    """
    found: list[Reference] = []
    for name in unseen_families():
        published = published_networks((name,))
        Random(f"{name}/{TEST_SEED}").shuffle(published)
        chosen = [each for each in published if _fits(each)][:PUBLISHED_PER_FAMILY]
        found += [*chosen, *islice(_variants(name), TESTS_PER_FAMILY - len(chosen))]
    return tuple(found)


def _variants(family: str) -> Iterator[Reference]:
    """Variants of a family that are small enough; stored families have none."""
    space = SPACES.get(family)
    return (each for each in space.sample(50, TEST_SEED) if _fits(each)) if isinstance(space, VariantFamily) else iter(())


def _fits(reference: Reference) -> bool:
    graph = build(reference)
    return graph_macs(graph) <= MOST_MACS and graph.parameter_count <= MOST_WEIGHTS


def is_published(reference: Reference) -> bool:
    """Whether a test network is a published member of its family, not a drawn variant."""
    return reference.key in {each.key for each in published_networks((reference.space,))}


def take_labels(
    bench: Bench, processes: int, rounds: int, watch: Callable[[Progress], None], networks: Sequence[Reference] | None = None
) -> None:
    """Brings every test network, by default those of :func:`test_networks`, to this many processes of measurements."""
    items = [CampaignItem(reference, plan=label_plan(rounds)) for reference in networks or test_networks()]
    with bench.store("labels") as store:
        Campaign(store, bench.settings, items, processes=processes, progress=watch).run()


def take_profile(bench: Bench, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Runs ``latcast profile`` in an empty home, unless that was done; what :func:`profile_taken` gives.

    One that was cut off begins again: how long it had measured would not be known.
    """
    path = _profile_path(bench)
    if path.exists() and (known := profile_taken(bench))["minutes"] == minutes:
        return known
    path.unlink(missing_ok=True)
    shutil.rmtree(bench.home, ignore_errors=True)
    arguments = ["profile", "--runtime", bench.runtime, "--precision", bench.precision, "--budget", f"{minutes:g}"]
    if seed:
        arguments += ["--seed", str(seed)]
    if bench.unit != "cpu1":
        arguments += ["--unit", bench.unit]
    if bench.cpu is not None:
        arguments += ["--cpus", str(bench.cpu)]
    start = time.monotonic()
    printed = bench.latcast(*arguments)
    seconds = time.monotonic() - start
    found = {**printed, "command": f"latcast {' '.join(arguments)}", "minutes": minutes, "wall_seconds": round(seconds, 1)}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(found, indent=1) + "\n")
    draft.replace(path)
    return found


def _profile_path(bench: Bench) -> Path:
    return bench.folder / "profile.json"


def profile_taken(bench: Bench) -> dict[str, Any]:
    """The profile that is to be judged: what the command printed, the command itself, its budget and its seconds.

    Raises:
        MeasurementError: There is none yet.
    """
    try:
        found: dict[str, Any] = json.loads(_profile_path(bench).read_text())
    except FileNotFoundError:
        raise MeasurementError(f"{bench.name} is not profiled yet: python -m benchmarks accuracy {bench.runtime}") from None
    return found


@dataclass(frozen=True)
class Examined:
    """A bench's profile beside labels.

    Attributes:
        profiled: As :func:`profile_taken` gives it.
        trained: What was measured to train it.
        labels: Of the test networks, in the quiet state as it was known when it was trained, which the predictor speaks of.
        evaluate: What ``latcast evaluate`` says of a bundle, or of a platform's, on the labels.
    """

    profiled: dict[str, Any]
    trained: list[Reference]
    labels: list[Label]
    evaluate: Callable[[str], dict[str, Any]]


def examined(bench: Bench, labels_of: Bench) -> Examined:
    """A bench's profile beside the labels that were taken for one.

    Raises:
        MeasurementError: There is no profile yet.
    """
    profiled = profile_taken(bench)
    path = str((labels_of.folder / "labels.sqlite").absolute())
    with Store(profiled["store"]) as learned, labels_of.store("labels") as store:
        store.take_quiet_times(learned)
        trained = learned.references(platform=profiled["platform"])
        labels = store.labels(platform=profiled["platform"])
    spaces = ",".join(sorted({label.reference.space for label in labels}))
    return Examined(
        profiled, trained, labels, lambda bundle: bench.latcast("evaluate", bundle, path, profiled["store"], "--families", spaces)
    )


def train_again(bench: Bench, profiled: Mapping[str, Any], measurements: Sequence[Measurement], **changes: Any) -> None:
    """Train on some measurements of a profile in the home of a bench, which then has a profile of its own with these changes."""
    shutil.rmtree(bench.folder, ignore_errors=True)
    with bench.store("profile") as store:
        store.add_all(measurements)
    path = str((bench.folder / "profile.sqlite").absolute())
    bench.latcast("train", path, "--on", profiled["platform"])
    _profile_path(bench).write_text(json.dumps({**profiled, "store": path, **changes}))


def measure_to_learn_from(bench: Bench, learn_from: str, watch: Callable[[Stage], None]) -> None:
    """Measures what is learned from, from a seed of its own, so that nothing profits from another's measurements."""
    with bench.store(learn_from) as store:
        measure_for_training(
            bench.settings,
            store,
            budget_s=LEARN_FROM_SECONDS,
            learn_from=learn_from,
            seed=LEARN_FROM_SEEDS[learn_from],
            watch=watch,
        )
