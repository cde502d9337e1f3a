"""Fake devices and false records, sent as honest uploads are, and what they change of a hub's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sqlalchemy import select

from benchmarks.hub.made_up import MadeUp, content, made_up, record
from benchmarks.judge import table
from benchmarks.result_files import kept
from latcast.datasets.importers import IMPORTERS
from latcast.hub.database import HubDatabase
from latcast.hub.model import HubModel
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit
from latcast.hub.schema import ContributorRow
from latcast.predictors.metrics import judge
from latcast.records import Measurement, Platform

SIGNATURE = 10
"""Networks that a judged device has measured."""

FACTOR = 1.3
"""By which half of the fake devices are slower than they say, on half of their networks."""

SHOWN_FACTOR = 4.0
"""By which three records try to move what is shown for a network."""

FAKES_A_TOKEN = 17


@dataclass(frozen=True)
class Attack:
    """Figures of one attack.

    Attributes:
        name: Who attacks.
        fakes: Devices that it tries to bring.
        accepted: Fakes of which some records were accepted.
        mape_before, mape_after: Of other devices that the hub did not see, from ten of their networks.
        coverage_before, coverage_after: Percent of their networks in the 90 % interval.
        published_before, published_after: The error that the hub says it has.
    """

    name: str
    fakes: int
    accepted: int
    mape_before: float
    mape_after: float
    coverage_before: float
    coverage_after: float
    published_before: float | None
    published_after: float | None

    @property
    def moved_points(self) -> float:
        """Points by which the others' MAPE moved."""
        return abs(self.mape_after - self.mape_before)


def fake_devices(honest: int = 66, fakes: int = 66, networks: int = 60, nameless: int = 20, seed: int = 0) -> list[Attack]:
    """Send fake devices: copies of honest ones, half of them with half of their latencies 1.3 times too long.

    Half of the honest devices are of trusted contributors, one each.

    Args:
        nameless: Of which nothing but a name is known.
    """
    judged = max(4, honest // 4)
    found = made_up(honest + judged, networks, nameless, seed)
    rng = np.random.default_rng([seed, 1])
    attacks = []
    for name, trusted, per_token in (
        ("one stranger", None, fakes),
        (f"strangers with a token for {FAKES_A_TOKEN} devices each", None, FAKES_A_TOKEN),
        ("trusted contributors", True, FAKES_A_TOKEN),
    ):
        with TemporaryDirectory() as folder, HubDatabase(str(Path(folder) / "hub.sqlite")) as database:
            for index in range(honest):
                _send(database, f"honest {index}", found.records(index, range(len(found.references))), None, index % 2 == 0)
            served = ServedModel()
            before = _judged(database, served, found, honest)
            for index in range(fakes):
                factor = np.ones(len(found.references))
                if index % 2:
                    factor[rng.permutation(len(factor))[: len(factor) // 2]] = FACTOR
                records = [
                    record(f"fake-{index}/{item.platform.partition('/')[2]}", item.reference, float(item.latency_ms or 0.0))
                    for item in found.records(index % honest, range(len(found.references)), factor)
                ]
                _send(database, f"attacker {index // per_token}", records, served.model, trusted)
            after = _judged(database, served, found, honest)
            accepted = sum(1 for each in HubReader(database).platforms() if each["device"].startswith("fake-"))
        attacks.append(Attack(name, fakes, accepted, *(value for pair in zip(before, after, strict=True) for value in pair)))
    return attacks


def _send(
    database: HubDatabase, who: str, records: Sequence[Measurement], model: HubModel | None, trusted: bool | None
) -> dict[str, Any]:
    """Receive records as the API does, each contributor with one token."""
    known = next((each for each in database.tokens() if each.contributor == who), None)
    if known is not None:
        with database._reading() as session:
            number = session.scalars(select(ContributorRow.id).where(ContributorRow.name == who)).one()
        return database.receive(number, content(records), records, model, known)
    text, _ = database.issue_token(who, trusted=trusted)
    number, token = database.check_token(text)
    return database.receive(number, content(records), records, model, token)


def _judged(database: HubDatabase, served: ServedModel, found: MadeUp, first: int) -> tuple[float, float, float | None]:
    """Return MAPE and coverage on devices that the hub has not seen, and the error that it publishes."""
    version = refit(database, served)
    model = served.model
    assert version is not None
    assert model is not None
    rows = []
    for index in range(first, len(found.platforms)):
        known = {found.references[place].key: float(found.latency_ms[index, place]) for place in range(SIGNATURE)}
        forecasts = model.predict(found.references[SIGNATURE:], known, found.platforms[index])
        for place, reference in enumerate(found.references[SIGNATURE:], start=SIGNATURE):
            if reference.key in forecasts:
                each = forecasts[reference.key]
                rows.append((found.latency_ms[index, place], each.latency_ms, each.low_ms, each.high_ms))
    actual_ms, latency_ms, low_ms, high_ms = np.array(rows).T
    figures = judge(latency_ms, actual_ms, low_ms, high_ms).to_json()
    published = (version.held_out or {}).get("mape")
    return float(figures["mape"]), float(figures["interval_coverage"]), published


@dataclass(frozen=True)
class Shown:
    """Change that a few records of a stranger made to what is shown for a network.

    Attributes:
        name: How they were sent.
        records: How many.
        believed: How many of them were.
        factor: The largest by which a figure of the network moved: on a platform, or the fastest, median, slowest over platforms.
    """

    name: str
    records: int
    believed: int
    factor: float


def few_records(honest: int = 6, networks: int = 20, seed: int = 0) -> list[Shown]:
    """Send three records by which a stranger tries to move what is shown for one network by a factor of four, either way."""
    found = made_up(honest, networks, 0, seed)
    target = found.references[0]
    shown = []
    for name, platforms, places, factor in (
        ("on a known platform, longer", [found.platforms[0]] * 3, [0, 0, 0], SHOWN_FACTOR),
        ("on a known platform, shorter", [found.platforms[0]] * 3, [0, 0, 0], 1 / SHOWN_FACTOR),
        ("on three known platforms", list(found.platforms[:3]), [0, 0, 0], SHOWN_FACTOR),
        ("on three new platforms, longer", [f"fake-{i}/onnxruntime-1.31/cpu1/fp32" for i in range(3)], [0, 0, 0], 100.0),
        ("on three new platforms, shorter", [f"fake-{i}/onnxruntime-1.31/cpu1/fp32" for i in range(3)], [0, 0, 0], 0.01),
        ("on one new platform", ["fake-0/onnxruntime-1.31/cpu1/fp32"] * 3, [0, 1, 2], 100.0),
    ):
        with TemporaryDirectory() as folder, HubDatabase(str(Path(folder) / "hub.sqlite")) as database:
            for index in range(honest):
                _send(database, f"honest {index}", found.records(index, range(networks)), None, None)
            served = ServedModel()
            refit(database, served)
            before = _shown(database, target.key, found.platforms)
            records = [
                record(platform, found.references[place], float(found.latency_ms[row % honest, place]) * factor, day=2 + row)
                for row, (platform, place) in enumerate(zip(platforms, places, strict=True))
            ]
            answer = _send(database, "stranger", records, served.model, None)
            after = _shown(database, target.key, found.platforms)
            moved = np.exp(np.abs(np.log(np.array(after) / np.array(before))).max())
            shown.append(Shown(name, len(records), int(answer["accepted"]), float(moved)))
    return shown


def _shown(database: HubDatabase, key: str, platforms: Sequence[str]) -> list[float]:
    reader = HubReader(database)
    listed = next(item for item in reader.networks() if item["key"] == key)
    cells = {item["platform"]: item["latency_ms"] for item in reader.network(key)["latencies"]}
    return [listed["fastest_ms"], listed["median_ms"], listed["slowest_ms"], *(cells[name] for name in platforms)]


@dataclass(frozen=True)
class Poisoning:
    """Change that latencies :data:`FACTOR` times too long made to a platform that others measured honestly.

    Attributes:
        name: Who they are.
        honest, fakes: Contributors.
        held: Fakes of whom nothing was believed, over all platforms.
        median_factor, shown_factor: Median over networks of a figure by its truth: of the median over contributors, and as shown.
        median_coverage, shown_coverage: Percent of the platform's other networks whose truth lies in the 90 % interval that is
            predicted from the median over contributors, and as shown.
        agreeing: Median share of contributors, in percent, who are said to agree with what is shown.
    """

    name: str
    honest: int
    fakes: int
    held: int
    median_factor: float
    shown_factor: float
    median_coverage: float
    shown_coverage: float
    agreeing: float


NOISE = 0.03
"""Standard deviation between contributors who measure the same, as a logarithm."""


def poisoned_platform(
    honest: int = 20, fakes: int = 20, few: int = 3, networks: int = 60, platforms: int = 3, seed: int = 0
) -> list[Poisoning]:
    """Send fakes among contributors of one platform, in an order drawn by chance, and judge several platforms.

    Args:
        honest: Contributors, as many as fakes or more.
        few: Honest contributors where there are few.
        networks: The first half of them is measured, the others are predicted.
        platforms: Each poisoned by itself.
    """
    served = ServedModel()
    served.serve_seed()
    found = made_up(platforms + 1, networks, 0, seed)
    scenarios = (
        ("as many strangers as honest ones", honest, None),
        ("many strangers among few", few, None),
        ("many strangers among few trusted ones", few, True),
    )
    return [_poisoning(name, found, served, count, fakes, trusted, seed) for name, count, trusted in scenarios]


def _poisoning(
    name: str, found: MadeUp, served: ServedModel, honest: int, fakes: int, trusted: bool | None, seed: int
) -> Poisoning:
    model, rng = served.model, np.random.default_rng([seed, honest, fakes])
    assert model is not None
    half, held, rows = len(found.references) // 2, 0, []
    shown_factors, median_factors, agreeing = [], [], []
    for index, platform in enumerate(found.platforms[:-1]):
        votes = np.exp(rng.normal(0.0, NOISE, (honest + fakes, half)))
        votes[honest:] *= FACTOR
        with TemporaryDirectory() as folder, HubDatabase(str(Path(folder) / "hub.sqlite")) as database:
            # Networks are predicted once anybody has measured them.
            _send(database, "elsewhere", found.records(len(found.platforms) - 1, range(2 * half)), None, True)
            for who in [*range(honest), *rng.permutation(honest + fakes)] if trusted else rng.permutation(honest + fakes):
                records = found.records(index, range(half), votes[who], day=1 + int(who) % 28)
                answer = _send(database, f"contributor {who}", records, model, trusted if who < honest else None)
                held += int(who >= honest and not answer["accepted"])
            page = HubReader(database, served).device_page(platform, model.predict)
        truth = dict(zip((each.key for each in found.references), found.latency_ms[index].tolist(), strict=True))
        medians = {
            each.key: float(np.median(votes[:, row])) * truth[each.key] for row, each in enumerate(found.references[:half])
        }
        expected = model.predict(found.references[half:], medians, platform)
        predicted = {item["key"]: item for item in page["predicted"]}
        for each in found.references[half : 2 * half]:
            plain, shown = expected[each.key], predicted[each.key]
            rows.append(
                (plain.low_ms <= truth[each.key] <= plain.high_ms, shown["low_ms"] <= truth[each.key] <= shown["high_ms"])
            )
        shown_factors += [item["latency_ms"] / truth[item["key"]] for item in page["measured"]]
        median_factors += [value / truth[key] for key, value in medians.items()]
        agreeing += [100 * item["agreeing"] / item["contributors"] for item in page["measured"]]
    plain_coverage, shown_coverage = 100 * np.mean(rows, axis=0)
    return Poisoning(
        name, honest, fakes, held, float(np.median(median_factors)), float(np.median(shown_factors)), float(plain_coverage),
        float(shown_coverage), float(np.median(agreeing)),
    )  # fmt: skip


def poison_table() -> str:
    """Return the table of the last kept run of :func:`poisoned_platform`."""
    columns = {
        "honest": "{honest}", "fakes": "{fakes}", "who": "{name}", "median over contributors / truth": "{median_factor:.2f}",
        "shown / truth": "{shown_factor:.2f}", "inside, from the median %": "{median_coverage:.0f}",
        "inside, as shown %": "{shown_coverage:.0f}", "held, of three platforms": "{held}",
    }  # fmt: skip
    return table(kept("hub/poison"), columns)


STRENGTHS = (1.0, 1.3, 2.0, 3.0)


@dataclass(frozen=True)
class Doubt:
    """Records that a hub holds back, of contributors whose latencies are too long or too short by a factor.

    Attributes:
        name: What they send.
        factor: By which they are too long, or as often too short; 1 for honest ones.
        records: Of that factor.
        held: Of these, held back.
    """

    name: str
    factor: float
    records: int
    held: int

    @property
    def percent(self) -> float:
        return 100 * self.held / self.records


FIRST = "honest records of trusted contributors after fakes"
"""Kinds of records counted by :func:`doubts` that should never be held back."""


def doubts(seeds: int = 3, networks: int = 24, platforms: int = 3, strengths: Sequence[float] = STRENGTHS) -> list[Doubt]:
    """Send records of a stranger to platforms of which two trusted contributors measured half of the networks.

    Args:
        platforms: That each seed draws.
    """
    served = ServedModel()
    served.serve_seed()
    counts: dict[tuple[str, float], np.ndarray] = {}
    for seed in range(seeds):
        found = made_up(platforms, networks, 0, seed)
        for index in range(platforms):
            for strength in strengths:
                for factor in {strength, 1 / strength}:
                    rng = np.random.default_rng([seed, index])
                    for name, judged in _doubted(found, index, factor, served, rng).items():
                        counts[name, strength] = counts.get((name, strength), np.zeros(2, dtype=int)) + judged
    return [Doubt(name, strength, *judged.tolist()) for (name, strength), judged in counts.items()]


def _doubted(
    found: MadeUp, index: int, factor: float, served: ServedModel, rng: np.random.Generator
) -> dict[str, tuple[int, int]]:
    """Return how many records that are wrong by a factor were sent to one platform, and held back, by the way of sending."""
    half = len(found.references) // 2
    ran, others = range(half), range(half, 2 * half)

    def measured(networks: Sequence[int], times: np.ndarray | float = 1.0, day: int = 3) -> list[Measurement]:
        return found.records(index, networks, times * np.exp(rng.normal(0.0, NOISE, len(networks))), day)

    trusted = [("trusted 1", measured(ran, day=1)), ("trusted 2", measured(ran, day=2))]
    copied = found.records(index, ran, 1.0, 4)
    few = np.where(np.arange(half) % 2, factor, 1.0)
    elsewhere = [
        record(f"fake/{each.platform.partition('/')[2]}", each.reference, float(each.latency_ms or 0.0))
        for each in measured(ran, few)
    ]
    sent = {
        "networks that trusted contributors ran": (trusted, [measured(ran, factor)], [True] * half),
        "two of these an upload": (trusted, [measured(ran[at : at + 2], factor) for at in range(0, half, 2)], [True] * half),
        "half of these": (trusted, [measured(ran, few)], few != 1),
        "networks that they did not run": (trusted, [measured(others, factor)], [True] * half),
        "these after as many copies": (trusted, [copied + measured(others, factor)], [False] * half + [True] * half),
        "half of the networks of a new platform": (trusted, [elsewhere], few != 1),
        FIRST: ([("stranger", measured(ran, factor))], [measured(ran)], [True] * half),
    }  # fmt: skip
    counted = {}
    for name, (before, uploads, wrong) in sent.items():
        if factor == 1 and not np.any(wrong):
            continue
        with TemporaryDirectory() as folder, HubDatabase(str(Path(folder) / "hub.sqlite")) as database:
            for who, records in before:
                _send(database, who, records, served.model, who.startswith("trusted") or None)
            held = []
            for records in uploads:
                answer = _send(database, "last", records, served.model, name == FIRST or None)
                reasons = {each["record"] for each in answer["quarantined"]}
                held += [place in reasons for place in range(1, len(records) + 1)]
        counted[name] = int(np.sum(wrong)), int(np.sum(np.array(held) & np.array(wrong)))
    return counted


def phones_of_one_model(folder: Path, networks: int = 48, given: int = 12, seed: int = 0) -> list[Doubt]:
    """Send what one phone of a model measured after a trusted contributor's measurements of another one; all are honest.

    The model that serves knows these phones, so its intervals are narrower than those of others.

    Args:
        folder: Of the dataset of Ganesan et al.
        networks: Of which drawn ones are measured.
        given: Networks that the trusted contributor measured; the other sends these, or others.
    """
    served = ServedModel()
    served.serve_seed()
    assert served.model is not None
    phones: dict[str, dict[str, dict[str, Measurement]]] = {}
    for item in IMPORTERS.get("iiswc20").read(folder).measurements:
        platform = Platform.parse(item.platform)
        name = replace(platform, device=platform.device.partition(".")[0]).id
        phones.setdefault(name, {}).setdefault(item.platform, {})[item.reference.key] = replace(item, platform=name)
    any_phone = next(iter(next(iter(phones.values())).values()))
    keys = np.random.default_rng(seed).permutation(sorted(any_phone))[:networks].tolist()
    known = served.model.networks.with_more(served.model.pool, [any_phone[key].reference for key in keys])
    model = replace(served.model, networks=known)
    counts = {
        name: np.zeros(2, dtype=int)
        for name in ("real phones of one model, the same networks", "real phones of one model, other networks")
    }
    for each in phones.values():
        for first, second in permutations(each.values(), 2):
            for name, sent in zip(counts, (keys[:given], keys[given : 2 * given]), strict=True):
                with TemporaryDirectory() as path, HubDatabase(str(Path(path) / "hub.sqlite")) as database:
                    _send(database, "owner", [first[key] for key in keys[:given]], model, True)
                    answer = _send(database, "other owner", [second[key] for key in sent], model, None)
                    counts[name] += (len(sent), len(answer["quarantined"]))
    return [Doubt(name, 1.0, *judged.tolist()) for name, judged in counts.items()]


def doubts_table() -> str:
    """Return the table of the last kept run of :func:`doubts`: percent held by what is sent and by strength."""
    rows: dict[str, dict[str, Any]] = {}
    for each in kept("hub/doubt"):
        rows.setdefault(each["name"], {"name": each["name"]})[f"{each['factor']:g}"] = f"{each['percent']:.0f}"
    shown = {"honest" if strength == 1 else f"{strength:g} times": f"{strength:g}" for strength in STRENGTHS}
    cells = {head: lambda row, key=key: row[key] for head, key in shown.items()}
    return table([*rows.values()], {"held, % of records": "{name}", **cells})
