"""The measurements behind the tables of this machine: one folder a platform, resumable, in pieces.

A platform's folder holds a home in which ``latcast profile`` was run as a user runs it, and a store of the test networks' labels.
Labels are taken in several passes, before and after the profile, so that they are spread over time.
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
from benchmarks.result_files import write_json
from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.graph.operators import graph_macs
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.labels import Label
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.records import Measurement, Platform, Reference
from latcast.spaces import build
from latcast.spaces.catalogue import SPACES
from latcast.spaces.families.variants import VariantFamily
from latcast.spaces.training_mix import published_networks, unseen_families

FOLDER = Path(".latcast/bench")

LABEL_PROCESSES, LABEL_ROUNDS = 4, 3
"""Passes over the test networks, each a process of its own, and rounds in each: a label is the median of all rounds."""

TEST_SEED, TESTS_PER_FAMILY, PUBLISHED_PER_FAMILY = 0, 3, 2

MOST_MACS, MOST_WEIGHTS = 20e9, 150e6
"""Larger test networks are left out: half a second a run in fp32 on the machine that the README speaks of, and 600 MB."""


def label_plan(rounds: int = LABEL_ROUNDS) -> MeasurePlan:
    """Return how a test network is measured in one process."""
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
        """Unit as in platform ids: ``cpu1``, ``cpu1+avx2``."""
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
        """Settings of the commands that a user types."""
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
        """Open the store of "labels" or of a "profile"."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Store(self.folder / f"{what}.sqlite")

    def platform(self, what: str = "labels") -> Platform:
        """Return the id that the platform's worker reported.

        Raises:
            MeasurementError: Nothing was measured yet.
        """
        with self.store(what) as store:
            found = list(store.platforms())
        if not found:
            raise MeasurementError(f"found no measurements in {self.folder}; take them: python -m benchmarks outsiders")
        return Platform.parse(found[0])

    def latcast(self, *arguments: str) -> dict[str, Any]:
        """Run a latcast command in the platform's home and return the JSON that it prints; progress goes to standard error.

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
    """Return real networks of families no member of which is trained on: at most three of each, their sizes drawn at random.

    Up to two are published members, drawn regardless of size; the others are variants with widths, depths and resolution drawn
    as in :mod:`latcast.spaces.families.variants`, always by the same seed.
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


def take_labels(
    bench: Bench, processes: int, rounds: int, watch: Callable[[Progress], None], networks: Sequence[Reference] | None = None
) -> None:
    """Measure networks, by default :func:`test_networks`, until each has measurements of so many processes."""
    items = [CampaignItem(reference, plan=label_plan(rounds)) for reference in networks or test_networks()]
    with bench.store("labels") as store:
        Campaign(store, bench.settings, items, processes=processes, progress=watch).run()


def take_profile(bench: Bench, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Run ``latcast profile`` in an empty home, unless that was done, and return it as :func:`profile_taken` does.

    A profile that was cut off begins again, as the time that it had measured is not known.
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
    write_json(path, found)
    return found


def _profile_path(bench: Bench) -> Path:
    return bench.folder / "profile.json"


def profile_taken(bench: Bench) -> dict[str, Any]:
    """Return the profile to be judged: what the command printed, the command itself, its budget and its seconds.

    Raises:
        MeasurementError: There is none yet.
    """
    try:
        found: dict[str, Any] = json.loads(_profile_path(bench).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MeasurementError(f"{bench.name} is not profiled yet: python -m benchmarks outsiders {bench.runtime}") from None
    return found


@dataclass(frozen=True)
class Examined:
    """A bench's profile beside labels.

    Attributes:
        profiled: As :func:`profile_taken` gives it.
        trained: Networks that were measured to train it.
        labels: Of the test networks, corrected to the quiet state that the predictor was trained for.
        evaluate: Runs ``latcast evaluate`` on the labels, given a bundle or a platform.
    """

    profiled: dict[str, Any]
    trained: list[Reference]
    labels: list[Label]
    evaluate: Callable[[str], dict[str, Any]]


def examined(bench: Bench, labels_of: Bench) -> Examined:
    """Return a bench's profile beside the labels that were taken for a bench.

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


def train_again(bench: Bench, profiled: Mapping[str, Any], measurements: Sequence[Measurement]) -> None:
    """Train on some measurements of a profile in the home of a bench, which then has a profile of its own."""
    shutil.rmtree(bench.folder, ignore_errors=True)
    with bench.store("profile") as store:
        store.add_all(measurements)
    path = str((bench.folder / "profile.sqlite").absolute())
    bench.latcast("train", path, "--on", profiled["platform"])
    _profile_path(bench).write_text(json.dumps({**profiled, "store": path}))
