"""Reads of a hub: devices, networks, measurements, as JSON values."""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, ReferenceRow, stored_measurement, stored_reference
from latcast.errors import HubError
from latcast.hub import browser
from latcast.hub.cells import FEWEST_NETWORKS, Cells, read_cells
from latcast.hub.comparable import MAIN_GROUP, Connections, connections_of
from latcast.hub.database import HubDatabase
from latcast.hub.entries import elsewhere, forecast_json, named, network_json, unmeasured_json, why_not_predicted
from latcast.hub.model import Forecast
from latcast.hub.schema import ContributionRow, ContributorRow, ModelVersionRow, QuarantineRow, UploadRow
from latcast.predictors.bundle import save_bundle
from latcast.predictors.bundle_index import IndexEntry, shipped_pool
from latcast.predictors.forecast import load, predict_many
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model as published_model

if TYPE_CHECKING:
    from latcast.hub.refitting import ServedModel

Predict = Callable[[Sequence[Reference], Mapping[str, float], str], dict[str, Forecast]]

PAGE = 500
"""Records read at once."""

YARDSTICK = "mobilenet_v2"
"""Network by which platforms that nobody measured here are compared with the others."""

TYPICAL = 50
"""Platforms of the pool, from all over it, whose median is what a typical platform takes."""


class NotFoundError(HubError):
    """The hub has nothing of this name."""


class OwnLatencies(NamedTuple):
    """What a hub has measured of a platform.

    Attributes:
        latencies: Of networks of known kernels (ms), by reference key.
        trusted: Whether a trusted contributor measured any of them.
    """

    latencies: Mapping[str, float]
    trusted: bool


class HubReader:
    """Reads one database; each call is a transaction of its own.

    What is computed of all measurements is kept until the database changes.

    Args:
        database: Open.
        served: The model that answers; None for a reader of measurements alone.
        seeded: Whether platforms that come with latcast are among those that it knows.
    """

    def __init__(self, database: HubDatabase, served: ServedModel | None = None, *, seeded: bool = False) -> None:
        self._database = database
        self._served = served
        self._seeded = seeded
        self._computing = threading.RLock()
        self._computed: tuple[int, dict[str, Any]] = (-1, {})

    def _reading(self) -> Any:
        return self._database._reading()

    def _kept(self, what: str, compute: Callable[[], Any]) -> Any:
        """A result, computed once for a revision of the database."""
        revision = self._database.revision()
        with self._computing:
            if self._computed[0] != revision:
                self._computed = (revision, {})
            kept = self._computed[1]
            if what not in kept:
                kept[what] = compute()
            return kept[what]

    def cells(self, *, platform: str | None = None, network: str | None = None) -> Cells:
        """What stands for each network on each platform; of one platform or network where it is named."""

        def read() -> Cells:
            with self._reading() as session:
                return read_cells(session, platform=platform, network=network)

        return self._kept("cells", read) if platform is None and network is None else read()

    def connections(self) -> Connections:
        """Which platforms and networks compare."""
        model = self._served.model if self._served else None
        version = self._served.version.number if self._served and self._served.version else 0
        known = model.connected if model is not None else lambda _: False
        return self._kept(f"connections {version}", lambda: connections_of(self.cells(), known))

    def platforms(self) -> list[dict[str, Any]]:
        """Each platform with the parts of its id, its numbers of networks and measurements, and its group (see
        :class:`Connections`)."""
        groups = self.connections().platforms
        return [{**item, "group": groups.get(item["id"], 0)} for item in self._kept("platforms", self._platforms)]

    def _platforms(self) -> list[dict[str, Any]]:
        query = (
            select(
                PlatformRow,
                func.count(MeasurementRow.id),
                func.count(MeasurementRow.reference_key.distinct()),
                func.max(MeasurementRow.taken_at),
            )
            .join(MeasurementRow, MeasurementRow.platform_id == PlatformRow.id)
            .where(MeasurementRow.error.is_(None), MeasurementRow.role == "network")
            .group_by(PlatformRow.id)
            .order_by(PlatformRow.id)
        )
        cells = self.cells()
        trusted = {cells.platforms[place] for place in set(cells.platform[cells.trusted].tolist())}
        with self._reading() as session:
            return [
                {
                    "id": row.id,
                    "device": row.device,
                    "runtime": row.runtime,
                    "runtime_version": row.runtime_version,
                    "unit": row.unit,
                    "precision": row.precision,
                    "networks": networks,
                    "measurements": count,
                    "last_taken_at": last,
                    "trusted": row.id in trusted,
                }
                for row, count, networks, last in session.execute(query)
            ]

    def all_platforms(self) -> list[dict[str, Any]]:
        """Those of :meth:`platforms`, and those that come with latcast: ``source`` is "hub", "shipped" or "user"."""
        measured = {item["id"]: {**item, "source": "hub"} for item in self.platforms()}
        return [
            *measured.values(),
            *(unmeasured_json(each) for name, each in self._shipped().items() if name not in measured),
        ]

    def _shipped(self) -> Mapping[str, IndexEntry]:
        """Platforms that need no measurement here, by id."""
        return elsewhere() if self._seeded else {}

    def own(self) -> dict[str, OwnLatencies]:
        """Platforms that models are predicted on by what was measured here, by id; none whose contributors contradict each other.

        A stranger's counts from :data:`FEWEST_NETWORKS` networks on. A platform that comes with latcast stays as it comes, unless
        trusted contributors measured more of its networks here.
        """
        model = self._served.model if self._served else None
        if model is None:
            return {}
        cells, shipped = self.cells(), self._shipped()
        trusted = {cells.platforms[place] for place in set(cells.platform[cells.trusted].tolist())}
        disputed = {name for name, factor in zip(cells.platforms, cells.dispute.tolist(), strict=True) if factor > 1}
        found = {}
        for name, measured in cells.by_platform().items():
            if name in disputed:
                continue
            known = {key: latency_ms for key, latency_ms in measured.items() if model.connected(key)}
            before = int(shipped[name].card.get("measurements") or 0) if name in shipped else 0
            fewest = 1 if name in trusted else FEWEST_NETWORKS
            if len(known) >= fewest and (name not in shipped or (name in trusted and len(known) > before)):
                found[name] = OwnLatencies(known, name in trusted)
        return found

    def devices(self) -> list[dict[str, Any]]:
        """Each device with its platforms, those of :meth:`all_platforms`."""
        found: dict[str, dict[str, Any]] = {}
        for platform in self.all_platforms():
            device = found.setdefault(platform["device"], {"device": platform["device"], "measurements": 0, "platforms": []})
            device["measurements"] += platform["measurements"]
            device["platforms"].append(platform)
        return list(found.values())

    def typical(self) -> dict[str, float]:
        """What :data:`YARDSTICK` and networks measured here take on a typical platform of the pool (ms), if kernels are known."""
        model = self._served.model if self._served else None
        pool = shipped_pool() if self._seeded else None
        if model is None or pool is None:
            return {}

        def read() -> dict[str, float]:
            keys = [
                key for key in {*self.cells().networks, published_model(YARDSTICK, as_measured=True).key} if model.connected(key)
            ]
            found = [pool.predictor(name).device for name in pool.platforms[:: max(1, len(pool) // TYPICAL)]]
            forecasts = [model.by(each, keys) for each in found if each is not None]
            return {key: float(np.median([each[key].latency_ms for each in forecasts])) for key in keys}

        return self._kept(f"typical {self._served.version.number if self._served and self._served.version else 0}", read)

    def latencies(self) -> dict[str, dict[str, list[float]]]:
        """Network latencies (ms): platform id to reference key to what stands for it, a list of one."""
        return {
            platform: {key: [value] for key, value in found.items()} for platform, found in self.cells().by_platform().items()
        }

    def references(self, role: str = "network") -> dict[str, Reference]:
        """Networks of which the hub has a good measurement, by key, under the names of :func:`~latcast.hub.entries.named`."""

        def read() -> dict[str, Reference]:
            used = select(MeasurementRow.reference_key).where(MeasurementRow.role == role, MeasurementRow.error.is_(None))
            with self._reading() as session:
                keys = set(session.scalars(used))
            return {key: item for key, item in self.all_references().items() if key in keys}

        return dict(self._kept(f"references {role}", read))

    def all_references(self) -> dict[str, Reference]:
        """Networks and kernels of all records, failed ones too, by key, sorted by name."""

        def read() -> dict[str, Reference]:
            with self._reading() as session:
                found = named(stored_reference(row) for row in session.scalars(select(ReferenceRow)))
            return dict(sorted(found.items(), key=lambda item: (item[1].name, item[0])))

        return dict(self._kept("all references", read))

    def networks(self) -> list[dict[str, Any]]:
        """Each network with its range of latencies over platforms, by name, and its group (see :class:`Connections`)."""
        groups = self.connections().networks
        return [{**item, "group": groups.get(item["key"], 0)} for item in self._kept("networks", self._networks)]

    def _networks(self) -> list[dict[str, Any]]:
        ranges = self.cells().ranges()
        return [
            {**network_json(reference), **ranges[key]._asdict()} for key, reference in self.references().items() if key in ranges
        ]

    def network(self, key: str) -> dict[str, Any]:
        """A network with its latency on each platform.

        Raises:
            NotFoundError: No such network.
        """
        with self._reading() as session:
            row = session.get(ReferenceRow, key) if _storable(key) else None
        reference = None if row is None else self.all_references().get(key)
        if reference is None:
            raise NotFoundError(f"no network has the key '{key[:40]}'; /api/networks lists them")
        cells = self.cells(network=key)
        rows = [
            {
                "platform": cells.platforms[cells.platform[row]],
                "latency_ms": float(cells.latency_ms[row]),
                "measurements": int(cells.measurements[row]),
                "trusted": bool(cells.trusted[row]),
                **_agreement(cells, row),
            }
            for row in range(len(cells.latency_ms))
        ]
        return {**network_json(reference), "parameters": dict(reference.parameters), "latencies": rows}

    def device_page(self, platform: str, predict: Predict) -> dict[str, Any]:
        """Measured and predicted latencies of one platform.

        Args:
            platform: Its id.
            predict: What :meth:`HubModel.predict` does.

        Raises:
            NotFoundError: The hub has no good measurement of it.
        """
        cells = self.cells(platform=platform) if _storable(platform) else None
        if (cells is None or not cells.platforms) and platform in self._shipped():
            return self._shipped_page(platform)
        if cells is None or not cells.platforms:
            raise NotFoundError(f"the hub has no measurement of '{platform[:200]}'; /api/devices lists what it has")
        references = self.references()
        known = cells.by_platform()[platform]
        unknown = [reference for key, reference in references.items() if key not in known]
        dispute = float(cells.dispute[0])
        forecasts = {
            key: Forecast(each.latency_ms, each.low_ms / dispute, each.high_ms * dispute)
            for key, each in predict(unknown, known, platform).items()
        }
        model = self._served.model if self._served is not None else None
        missing = [reference for reference in unknown if reference.key not in forecasts]
        reasons = Counter(why_not_predicted(model, item.key, known) for item in missing)
        expected = {} if model is None else model.left_out(known, platform)
        parts = Platform.parse(platform)
        order = np.argsort(cells.latency_ms, kind="stable").tolist()
        return {
            "platform": platform,
            "device": parts.device,
            "source": "hub",
            "measured": [
                {
                    **network_json(references[cells.networks[cells.network[row]]]),
                    "latency_ms": float(cells.latency_ms[row]),
                    "fastest_ms": float(cells.fastest_ms[row]),
                    "slowest_ms": float(cells.slowest_ms[row]),
                    "measurements": int(cells.measurements[row]),
                    **_agreement(cells, row),
                    "forecast": forecast_json(expected[key]) if (key := cells.networks[cells.network[row]]) in expected else None,
                }
                for row in order
            ],
            "predicted": [
                {**network_json(references[key]), **forecast_json(forecast)}
                for key, forecast in sorted(forecasts.items(), key=lambda item: item[1].latency_ms)
            ],
            "not_predicted": len(missing),
            "reasons": [{"reason": reason, "networks": count} for reason, count in reasons.most_common()],
            "would_connect": [
                network_json(item)
                for item in self._would_connect(known, [each for each in missing if model is None or model.knows(each.key)])
            ],
        }

    def bundle(self, platform: str) -> bytes:
        """The predictor of a platform, as a bundle: of one of :meth:`own` from its latencies, else the one that comes with
        latcast, else from however few latencies.

        Raises:
            NotFoundError: The hub knows no such platform, or nothing tells its scale.
        """
        model = self._served.model if self._served is not None else None
        predictor: PlatformPredictor | None = None
        if platform in self._shipped() and platform not in self.own():
            predictor = load(platform)
        elif model is not None and _storable(platform) and (cells := self.cells(platform=platform)).platforms:
            predictor = model.predictor(platform, cells.by_platform()[platform])
        if predictor is None:
            raise NotFoundError(f"the hub has no predictor of '{platform[:200]}'; /api/platforms lists what it knows")
        with TemporaryDirectory(prefix="latcast-") as folder:
            return save_bundle(predictor, Path(folder) / "bundle.zip", compressed=True).read_bytes()

    def _shipped_page(self, platform: str) -> dict[str, Any]:
        """As :meth:`device_page`, of a platform that others measured and nobody here: all is predicted."""
        predictor = load(platform)
        model = self._served.model if self._served is not None else None
        references = {**browser.served_networks(), **self.references()}
        if predictor.device is not None and model is not None:
            forecasts = model.by(predictor.device, list(references))
        else:
            listed = list(browser.served_networks())
            found = predict_many([references[key] for key in listed], predictor)
            forecasts = {
                key: Forecast(each.latency_ms, each.low_ms, each.high_ms) for key, each in zip(listed, found, strict=True)
            }
        return {
            "platform": platform,
            "device": Platform.parse(platform).device,
            "source": self._shipped()[platform].source,
            "measured": [],
            "predicted": [
                {**network_json(references[key]), **forecast_json(each)}
                for key, each in sorted(forecasts.items(), key=lambda item: item[1].latency_ms)
            ],
            "not_predicted": len(references) - len(forecasts),
            "reasons": [],
            "would_connect": [],
        }

    def _would_connect(self, measured: Mapping[str, float], missing: Sequence[Reference]) -> list[Reference]:
        """Networks, quick ones, each of which makes more of the missing ones comparable once this platform has run it."""
        if not missing:
            return []
        groups = self.connections().networks
        wanted = {groups.get(item.key, MAIN_GROUP) for item in missing}
        ranges = self.cells().ranges()
        listed = sorted(self.references().values(), key=lambda item: ranges[item.key].median_ms if item.key in ranges else 0.0)
        found: list[Reference] = []
        if MAIN_GROUP in wanted:
            found += list(browser.networks().values())[:1]
            wanted.discard(MAIN_GROUP)
        for group in sorted(wanted):
            found += [item for item in listed if groups.get(item.key) == group and item.key not in measured][:1]
        return found

    def measurements(
        self,
        *,
        platform: str | None = None,
        network: str | None = None,
        role: str | None = None,
        after: str = "",
        limit: int = PAGE,
    ) -> list[dict[str, Any]]:
        """Records in order of their ids, each with its ``id``; ``after`` continues behind one."""
        query = select(MeasurementRow).where(MeasurementRow.id > after).order_by(MeasurementRow.id).limit(limit)
        for column, wanted in (
            (MeasurementRow.platform_id, platform),
            (MeasurementRow.reference_key, network),
            (MeasurementRow.role, role),
        ):
            if wanted is not None:
                query = query.where(column == wanted)
        if not all(_storable(text) for text in (platform, network, role, after) if text is not None):
            return []
        with self._reading() as session:
            return [{"id": row.id, **stored_measurement(row).to_json()} for row in session.scalars(query)]

    def export(self, *, platform: str | None = None, role: str | None = None) -> Iterator[bytes]:
        """All records as compressed JSON Lines, in portions; each portion is read in a transaction of its own."""
        packer = zlib.compressobj(wbits=31)
        after = ""
        while True:
            records = self.measurements(platform=platform, role=role, after=after)
            for record in records:
                after = record.pop("id")
                yield packer.compress(json.dumps(record, separators=(",", ":"), sort_keys=True).encode() + b"\n")
            if len(records) < PAGE:
                break
        yield packer.flush()

    def contributors(self) -> list[dict[str, Any]]:
        """Names with their numbers of uploads and measurements, the most active first."""
        query = (
            select(
                ContributorRow.name,
                func.count(UploadRow.id.distinct()),
                func.count(ContributionRow.measurement_id),
                func.max(UploadRow.received_at),
            )
            .join(UploadRow, UploadRow.contributor_id == ContributorRow.id)
            .outerjoin(ContributionRow, ContributionRow.upload_id == UploadRow.id)
            .group_by(ContributorRow.id)
            .order_by(func.count(ContributionRow.measurement_id).desc(), ContributorRow.name)
        )
        with self._reading() as session:
            return [
                {"name": name, "uploads": uploads, "measurements": count, "last_upload_at": last}
                for name, uploads, count, last in session.execute(query)
            ]

    def models(self) -> list[dict[str, Any]]:
        """Versions of the model without their content, the newest first."""
        columns = [column for column in ModelVersionRow.__table__.columns if column.name != "content"]
        query = select(*columns).order_by(ModelVersionRow.number.desc()).limit(PAGE)
        with self._reading() as session:
            return [dict(row._mapping) for row in session.execute(query)]

    def counts(self) -> dict[str, int]:
        """How much there is."""
        networks = select(func.count(MeasurementRow.reference_key.distinct())).where(MeasurementRow.role == "network")
        held = select(func.count(QuarantineRow.id)).where(QuarantineRow.discarded_at.is_(None))
        with self._reading() as session:
            return {
                "platforms": _count(session, select(func.count(PlatformRow.id))),
                "networks": _count(session, networks),
                "measurements": _count(session, select(func.count(MeasurementRow.id))),
                "contributors": _count(session, select(func.count(ContributorRow.id))),
                "quarantined": _count(session, held),
            }


def _agreement(cells: Cells, row: int) -> dict[str, Any]:
    """Count contributors who measured a cell and who agree with what is shown, and list groups that contradict each other."""
    disputed = bool(cells.low_ms[row] < cells.high_ms[row])
    return {
        "contributors": int(cells.contributors[row]),
        "agreeing": int(cells.agreeing[row]),
        "disputed_ms": [float(cells.low_ms[row]), float(cells.high_ms[row])] if disputed else None,
    }


def _count(session: Session, query: Select[Any]) -> int:
    return session.scalar(query) or 0


def _storable(text: str) -> bool:
    """Whether a database can hold a text at all: asking PostgreSQL for one with a NUL is an error."""
    return text.isprintable() and len(text) <= 200
