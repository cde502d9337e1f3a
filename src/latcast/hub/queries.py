"""Reads of a hub: devices, networks, measurements, as JSON values."""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from sqlalchemy import func, select

from latcast.datasets.rows import MeasurementRow, PlatformRow, ReferenceRow, stored_measurement, stored_reference
from latcast.errors import HubError
from latcast.forecast import predict_many
from latcast.hub import browser
from latcast.hub.cells import FEWEST_NETWORKS, MAIN_GROUP, Cells, Groups, read_cells
from latcast.hub.database import HubDatabase
from latcast.hub.entries import elsewhere, named, network_json, predicted_json, unmeasured_json, why_not_predicted
from latcast.hub.model import HubModel
from latcast.hub.named_platforms import YARDSTICK, meaning_among
from latcast.hub.scales import Forecast
from latcast.hub.schema import ContributionRow, ContributorRow, ModelVersionRow, QuarantineRow, UploadRow
from latcast.platforms import Meaning, load
from latcast.predictors.bundle import save_bundle
from latcast.predictors.bundle_index import IndexEntry, shipped_pool
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model as published_model

if TYPE_CHECKING:
    from latcast.hub.refitting import ServedModel

Predict = Callable[[Sequence[Reference], Mapping[str, float], str], dict[str, Forecast]]
"""Function with the signature of :meth:`HubModel.predict`."""

T = TypeVar("T")

PAGE = 500
"""Records read at once."""

TYPICAL = 50
"""Platforms of the pool, from all over it, whose median is the latency on a typical platform."""


class OwnLatencies(NamedTuple):
    """The latencies (ms) that a hub has of a platform, of networks of known kernels by reference key, and whether a trusted
    contributor measured any of them."""

    latencies: Mapping[str, float]
    trusted: bool


class HubReader:
    """Reads one database; each call is a separate transaction.

    Results that are computed from all measurements are kept until the database changes.

    Args:
        served: The model that answers; None for a reader of measurements alone.
        seeded: Whether platforms that come with latcast are among those that it knows.
    """

    def __init__(self, database: HubDatabase, served: ServedModel | None = None, *, seeded: bool = False) -> None:
        self._database = database
        self._served = served
        self._seeded = seeded
        self._computing = threading.RLock()
        self._computed: tuple[int, dict[str, Any]] = (-1, {})

    @property
    def _model(self) -> HubModel | None:
        return self._served.model if self._served else None

    @property
    def _shipped(self) -> Mapping[str, IndexEntry]:
        """Platforms that need no measurement here, by id."""
        return elsewhere() if self._seeded else {}

    def _kept(self, what: str, compute: Callable[[], T]) -> T:
        """Return a result that is computed once for a revision of the database."""
        revision = self._database.revision()
        with self._computing:
            if self._computed[0] != revision:
                self._computed = (revision, {})
            kept = self._computed[1]
            if what not in kept:
                kept[what] = compute()
            found: T = kept[what]
            return found

    def _kept_of_model(self, what: str, compute: Callable[[], T]) -> T:
        """Return a result that is computed once for a revision and a version of the model."""
        return self._kept(f"{what} {self._served.number if self._served else None}", compute)

    # Platforms and devices

    def cells(self, *, platform: str | None = None, network: str | None = None) -> Cells:
        """Return the latency of each network on each platform (:mod:`latcast.hub.cells`), or of those that are named."""

        def read() -> Cells:
            with self._database._reading() as session:
                return read_cells(session, platform=platform, network=network)

        return self._kept("cells", read) if platform is None and network is None else read()

    def groups(self) -> Groups:
        """Return which platforms and networks compare."""
        model = self._model
        return self._kept_of_model("groups", lambda: self.cells().groups(model.connected if model else lambda key: False))

    def platforms(self) -> list[dict[str, Any]]:
        """Return each platform with the parts of its id, its numbers of networks and measurements, and its group."""

        def read() -> list[dict[str, Any]]:
            row = MeasurementRow
            query = (
                select(row.platform_id, func.count(row.id), func.count(row.reference_key.distinct()), func.max(row.taken_at))
                .where(row.error.is_(None), row.role == "network")
                .group_by(row.platform_id)
                .order_by(row.platform_id)
            )
            trusted = self.cells().trusted_platforms()
            with self._database._reading() as session:
                return [
                    {
                        "id": name,
                        **asdict(Platform.parse(name)),
                        "networks": networks,
                        "measurements": count,
                        "last_taken_at": last,
                        "trusted": name in trusted,
                    }
                    for name, count, networks, last in session.execute(query)
                ]

        groups = self.groups().platforms
        return [{**item, "group": groups.get(item["id"], 0)} for item in self._kept("platforms", read)]

    def all_platforms(self) -> list[dict[str, Any]]:
        """Return :meth:`platforms`, and those that come with latcast: ``source`` is "hub", "shipped" or "user"."""
        measured = {item["id"]: {**item, "source": "hub"} for item in self.platforms()}
        return [*measured.values(), *(unmeasured_json(each) for name, each in self._shipped.items() if name not in measured)]

    def devices(self) -> list[dict[str, Any]]:
        """Return each device with its platforms, those of :meth:`all_platforms`."""
        found: dict[str, dict[str, Any]] = {}
        for platform in self.all_platforms():
            device = found.setdefault(platform["device"], {"device": platform["device"], "measurements": 0, "platforms": []})
            device["measurements"] += platform["measurements"]
            device["platforms"].append(platform)
        return list(found.values())

    def own(self) -> dict[str, OwnLatencies]:
        """Return the platforms on which models are predicted by latencies measured here, by id; none that is disputed.

        A stranger's counts from :data:`FEWEST_NETWORKS` networks on. A platform that comes with latcast stays as it comes, unless
        trusted contributors measured more of its networks here.
        """
        model = self._model
        if model is None:
            return {}
        cells = self.cells()
        trusted = cells.trusted_platforms()
        latencies = cells.by_platform()
        found = {}
        for name, dispute in zip(cells.platforms, cells.dispute.tolist(), strict=True):
            known = {key: latency_ms for key, latency_ms in latencies[name].items() if model.connected(key)}
            if name in self._shipped:
                believed = name in trusted and len(known) > int(self._shipped[name].card.get("measurements") or 0)
            else:
                believed = len(known) >= (1 if name in trusted else FEWEST_NETWORKS)
            if believed and dispute <= 1:
                found[name] = OwnLatencies(known, name in trusted)
        return found

    def meaning(self, text: str) -> Meaning:
        """Return what a text means among the platforms that models are predicted on.

        Raises:
            HubError: It means none (404); see :func:`meaning_among`.
        """

        def cards() -> dict[str, Mapping[str, Any]]:
            shipped = {name: each.card for name, each in self._shipped.items()}
            return shipped | {name: {"networks": len(each.latencies)} for name, each in self.own().items()}

        return meaning_among(text, self._kept_of_model("cards", cards))

    def typical(self) -> dict[str, float]:
        """Return the latency (ms) of :data:`YARDSTICK` and of networks measured here, of known kernels, on a typical platform."""
        model, pool = self._model, shipped_pool() if self._seeded else None
        if model is None or pool is None:
            return {}

        def compute() -> dict[str, float]:
            yardstick = published_model(YARDSTICK, as_measured=True).key
            keys = [key for key in {*self.cells().networks, yardstick} if model.connected(key)]
            devices = [pool.predictor(name).device for name in pool.platforms[:: max(1, len(pool) // TYPICAL)]]
            forecasts = [model.by(each, keys) for each in devices if each is not None]
            return {key: float(np.median([each[key].latency_ms for each in forecasts])) for key in keys}

        return self._kept_of_model("typical", compute)

    def device_page(self, platform: str, predict: Predict) -> dict[str, Any]:
        """Return measured and predicted latencies of one platform.

        Raises:
            HubError: The hub has no good measurement of it (404).
        """
        if not _storable(platform) or not (cells := self.cells(platform=platform)).platforms:
            if platform in self._shipped:
                return self._shipped_page(platform)
            raise HubError(f"the hub has no measurement of '{platform[:200]}'; /api/devices lists what it has", 404)
        model, references = self._model, self.references()
        known = cells.latencies()
        unknown = [reference for key, reference in references.items() if key not in known]
        dispute = float(cells.dispute[0])
        forecasts = {
            key: Forecast(each.latency_ms, each.low_ms / dispute, each.high_ms * dispute)
            for key, each in predict(unknown, known, platform).items()
        }
        missing = [reference for reference in unknown if reference.key not in forecasts]
        reasons = Counter(why_not_predicted(model, item.key, known) for item in missing)
        expected = {} if model is None else model.left_out(known, platform)
        measured = []
        for row in np.argsort(cells.latency_ms, kind="stable").tolist():
            key = cells.networks[cells.network[row]]
            measured.append(
                {
                    **network_json(references[key]),
                    **_cell_json(cells, row),
                    "fastest_ms": float(cells.fastest_ms[row]),
                    "slowest_ms": float(cells.slowest_ms[row]),
                    "forecast": asdict(expected[key]) if key in expected else None,
                }
            )
        fitted = [item for item in missing if model is None or model.knows(item.key)]
        return {
            "platform": platform,
            "device": Platform.parse(platform).device,
            "source": "hub",
            "measured": measured,
            "predicted": predicted_json(references, forecasts),
            "not_predicted": len(missing),
            "reasons": [{"reason": reason, "networks": count} for reason, count in reasons.most_common()],
            "would_connect": [network_json(item) for item in self._would_connect(known, fitted)],
        }

    def _shipped_page(self, platform: str) -> dict[str, Any]:
        """Return :meth:`device_page` of a platform that was measured elsewhere: all is predicted."""
        predictor, model = load(platform), self._model
        references = {**browser.served_networks(), **self.references()}
        if predictor.device is not None and model is not None:
            forecasts = model.by(predictor.device, references)
        else:
            listed = browser.served_networks()
            found = predict_many(list(listed.values()), predictor)
            forecasts = {
                key: Forecast(each.latency_ms, each.low_ms, each.high_ms) for key, each in zip(listed, found, strict=True)
            }
        return {
            "platform": platform,
            "device": Platform.parse(platform).device,
            "source": self._shipped[platform].source,
            "measured": [],
            "predicted": predicted_json(references, forecasts),
            "not_predicted": len(references) - len(forecasts),
            "reasons": [],
            "would_connect": [],
        }

    def _would_connect(self, measured: Mapping[str, float], missing: Sequence[Reference]) -> list[Reference]:
        """Return quick networks, each of which makes more of the missing ones comparable once this platform has run it."""
        if not missing:
            return []
        groups, ranges = self.groups().networks, self.cells().ranges()
        found: list[Reference] = []
        for group in sorted({groups.get(item.key, MAIN_GROUP) for item in missing}):
            if group == MAIN_GROUP:
                found.append(next(iter(browser.networks().values())))
            else:
                those = [
                    item for item in self.references().values() if groups.get(item.key) == group and item.key not in measured
                ]
                found += sorted(those, key=lambda item: ranges[item.key].median_ms)[:1]
        return found

    def bundle(self, platform: str) -> bytes:
        """Return the predictor of a platform, as a bundle: of one of :meth:`own` from its latencies, else the one that comes with
        latcast, else from however few latencies.

        Raises:
            HubError: The hub knows no such platform, or nothing tells its scale (404).
        """
        model = self._model
        predictor: PlatformPredictor | None = None
        if platform in self._shipped and platform not in self.own():
            predictor = load(platform)
        elif model is not None and _storable(platform) and (cells := self.cells(platform=platform)).platforms:
            predictor = model.predictor(platform, cells.latencies())
        if predictor is None:
            raise HubError(f"the hub has no predictor of '{platform[:200]}'; /api/platforms lists what it knows", 404)
        with TemporaryDirectory(prefix="latcast-") as folder:
            return save_bundle(predictor, Path(folder) / "bundle.zip", compressed=True).read_bytes()

    # Networks

    def all_references(self) -> dict[str, Reference]:
        """Return networks and kernels of all records, failed ones too, by key, under the names of :func:`named`."""

        def read() -> dict[str, Reference]:
            with self._database._reading() as session:
                return named(stored_reference(row) for row in session.scalars(select(ReferenceRow)))

        return self._kept("all references", read)

    def references(self) -> dict[str, Reference]:
        """Return networks of which the hub has a good measurement, by key, in the order of :meth:`all_references`."""

        def select_measured() -> dict[str, Reference]:
            measured = set(self.cells().networks)
            return {key: item for key, item in self.all_references().items() if key in measured}

        return self._kept("references", select_measured)

    def networks(self) -> list[dict[str, Any]]:
        """Return each network with its range of latencies over platforms, by name, and its group."""
        groups = self.groups().networks
        ranges = self._kept("ranges", lambda: self.cells().ranges())
        return [
            {**network_json(item), **ranges[key]._asdict(), "group": groups.get(key, 0)}
            for key, item in self.references().items()
        ]

    def network(self, key: str) -> dict[str, Any]:
        """Return a network with its latency on each platform.

        Raises:
            HubError: No such network (404).
        """
        reference = self.all_references().get(key)
        if reference is None:
            raise HubError(f"no network has the key '{key[:40]}'; /api/networks lists them", 404)
        cells = self.cells(network=key)
        rows = [
            {"platform": cells.platforms[cells.platform[row]], "trusted": bool(cells.trusted[row]), **_cell_json(cells, row)}
            for row in range(len(cells.latency_ms))
        ]
        return {**network_json(reference), "parameters": dict(reference.parameters), "latencies": rows}

    # Records

    def measurements(
        self,
        *,
        platform: str | None = None,
        network: str | None = None,
        role: str | None = None,
        after: str = "",
        limit: int = PAGE,
    ) -> list[dict[str, Any]]:
        """Return records in order of their ids, each with its ``id``; those that follow the id ``after``."""
        wanted = {MeasurementRow.platform_id: platform, MeasurementRow.reference_key: network, MeasurementRow.role: role}
        if not all(_storable(text) for text in (*wanted.values(), after) if text is not None):
            return []
        query = select(MeasurementRow).where(MeasurementRow.id > after).order_by(MeasurementRow.id).limit(limit)
        query = query.where(*(column == text for column, text in wanted.items() if text is not None))
        with self._database._reading() as session:
            return [{"id": row.id, **stored_measurement(row).to_json()} for row in session.scalars(query)]

    def export(self, *, platform: str | None = None, role: str | None = None) -> Iterator[bytes]:
        """Yield all records as compressed JSON Lines, in portions; each portion is read in a separate transaction."""
        packer = zlib.compressobj(wbits=31)
        after = ""
        while records := self.measurements(platform=platform, role=role, after=after):
            for record in records:
                after = record.pop("id")
                yield packer.compress(json.dumps(record, separators=(",", ":"), sort_keys=True).encode() + b"\n")
        yield packer.flush()

    def contributors(self) -> list[dict[str, Any]]:
        """Return names with their numbers of uploads and measurements, the most active first."""
        query = (
            select(
                ContributorRow.name,
                func.count(UploadRow.id.distinct()).label("uploads"),
                func.count(ContributionRow.measurement_id).label("measurements"),
                func.max(UploadRow.received_at).label("last_upload_at"),
            )
            .join(UploadRow, UploadRow.contributor_id == ContributorRow.id)
            .outerjoin(ContributionRow, ContributionRow.upload_id == UploadRow.id)
            .group_by(ContributorRow.id)
            .order_by(func.count(ContributionRow.measurement_id).desc(), ContributorRow.name)
        )
        with self._database._reading() as session:
            return [dict(row) for row in session.execute(query).mappings()]

    def models(self) -> list[dict[str, Any]]:
        """Return versions of the model without their content, the newest first."""
        columns = [column for column in ModelVersionRow.__table__.columns if column.name != "content"]
        query = select(*columns).order_by(ModelVersionRow.number.desc()).limit(PAGE)
        with self._database._reading() as session:
            return [dict(row) for row in session.execute(query).mappings()]

    def counts(self) -> dict[str, int]:
        """Return how many platforms, networks, measurements, contributors and records in quarantine there are."""
        queries = {
            "platforms": select(func.count(PlatformRow.id)),
            "networks": select(func.count(MeasurementRow.reference_key.distinct())).where(MeasurementRow.role == "network"),
            "measurements": select(func.count(MeasurementRow.id)),
            "contributors": select(func.count(ContributorRow.id)),
            "quarantined": select(func.count(QuarantineRow.id)).where(QuarantineRow.discarded_at.is_(None)),
        }
        with self._database._reading() as session:
            return {name: session.scalar(query) or 0 for name, query in queries.items()}


def _cell_json(cells: Cells, row: int) -> dict[str, Any]:
    """Return a cell as lists show it, with the contributors who agree and the groups that contradict each other."""
    disputed = bool(cells.low_ms[row] < cells.high_ms[row])
    return {
        "latency_ms": float(cells.latency_ms[row]),
        "measurements": int(cells.measurements[row]),
        "contributors": int(cells.contributors[row]),
        "agreeing": int(cells.agreeing[row]),
        "disputed_ms": [float(cells.low_ms[row]), float(cells.high_ms[row])] if disputed else None,
    }


def _storable(text: str) -> bool:
    """Return whether a database can hold a text at all: asking PostgreSQL for one with a NUL is an error."""
    return text.isprintable() and len(text) <= 200
