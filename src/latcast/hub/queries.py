"""Reads of a hub: devices, networks, measurements, as JSON values."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from latcast.datasets.rows import MeasurementRow, PlatformRow, ReferenceRow, stored_measurement, stored_reference
from latcast.errors import HubError
from latcast.hub.database import HubDatabase, network_latencies
from latcast.hub.model import Forecast
from latcast.hub.schema import ContributionRow, ContributorRow, ModelVersionRow, QuarantineRow, UploadRow
from latcast.records import Platform, Reference

Predict = Callable[[Sequence[Reference], Mapping[str, float]], dict[str, Forecast]]

PAGE = 500
"""Records read at once."""


class NotFoundError(HubError):
    """The hub has nothing of this name."""


class HubReader:
    """Reads one database; each call is a transaction of its own."""

    def __init__(self, database: HubDatabase) -> None:
        self._database = database

    def _reading(self) -> Any:
        return self._database._reading()

    def platforms(self) -> list[dict[str, Any]]:
        """Each platform with the parts of its id and its numbers of networks and measurements."""
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
                }
                for row, count, networks, last in session.execute(query)
            ]

    def devices(self) -> list[dict[str, Any]]:
        """Each device with its platforms."""
        found: dict[str, dict[str, Any]] = {}
        for platform in self.platforms():
            device = found.setdefault(platform["device"], {"device": platform["device"], "measurements": 0, "platforms": []})
            device["measurements"] += platform["measurements"]
            device["platforms"].append(platform)
        return list(found.values())

    def latencies(self, *, platform: str | None = None, network: str | None = None) -> dict[str, dict[str, list[float]]]:
        """Good network latencies (ms): platform id to reference key to one value for each measurement."""
        with self._reading() as session:
            return network_latencies(session, platform=platform, network=network)

    def references(self, role: str = "network") -> dict[str, Reference]:
        """Networks of which the hub has a good measurement, by key."""
        used = select(MeasurementRow.reference_key).where(MeasurementRow.role == role, MeasurementRow.error.is_(None))
        query = select(ReferenceRow).where(ReferenceRow.key.in_(used)).order_by(ReferenceRow.name, ReferenceRow.key)
        with self._reading() as session:
            return {row.key: stored_reference(row) for row in session.scalars(query)}

    def networks(self) -> list[dict[str, Any]]:
        """Each network with its range of latencies over platforms, by name."""
        by_network: dict[str, list[float]] = {}
        for networks in self.latencies().values():
            for key, values in networks.items():
                by_network.setdefault(key, []).append(median(values))
        return [
            {
                **network_json(reference),
                "platforms": len(by_network[key]),
                "fastest_ms": min(by_network[key]),
                "median_ms": median(by_network[key]),
                "slowest_ms": max(by_network[key]),
            }
            for key, reference in self.references().items()
            if key in by_network
        ]

    def network(self, key: str) -> dict[str, Any]:
        """A network with its latency on each platform.

        Raises:
            NotFoundError: No such network.
        """
        with self._reading() as session:
            row = session.get(ReferenceRow, key) if _storable(key) else None
            if row is None:
                raise NotFoundError(f"no network has the key '{key[:40]}'; /api/networks lists them")
            reference = stored_reference(row)
        rows = [
            {"platform": platform, "latency_ms": median(networks[key]), "measurements": len(networks[key])}
            for platform, networks in self.latencies(network=key).items()
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
        measured = self.latencies(platform=platform).get(platform) if _storable(platform) else None
        if not measured:
            raise NotFoundError(f"the hub has no measurement of '{platform[:200]}'; /api/devices lists what it has")
        references = self.references()
        known = {key: median(values) for key, values in measured.items()}
        unknown = [reference for key, reference in references.items() if key not in known]
        forecasts = predict(unknown, known)
        parts = Platform.parse(platform)
        return {
            "platform": platform,
            "device": parts.device,
            "measured": [
                {
                    **network_json(references[key]),
                    "latency_ms": known[key],
                    "fastest_ms": min(values),
                    "slowest_ms": max(values),
                    "measurements": len(values),
                }
                for key, values in sorted(measured.items(), key=lambda item: known[item[0]])
            ],
            "predicted": [
                {**network_json(references[key]), **forecast_json(forecast)}
                for key, forecast in sorted(forecasts.items(), key=lambda item: item[1].latency_ms)
            ],
            "not_predicted": len(unknown) - len(forecasts),
        }

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


def _count(session: Session, query: Select[Any]) -> int:
    return session.scalar(query) or 0


def _storable(text: str) -> bool:
    """Whether a database can hold a text at all: asking PostgreSQL for one with a NUL is an error."""
    return text.isprintable() and len(text) <= 200


def network_json(reference: Reference) -> dict[str, Any]:
    """A network as lists show it."""
    return {"key": reference.key, "name": reference.name or reference.key, "space": reference.space}


def forecast_json(forecast: Forecast) -> dict[str, float]:
    """A prediction as lists show it."""
    return {"latency_ms": forecast.latency_ms, "low_ms": forecast.low_ms, "high_ms": forecast.high_ms}


def forecasts_json(references: Sequence[Reference], forecasts: Mapping[str, Forecast]) -> list[dict[str, Any]]:
    """Predictions in the order that they were asked for; null figures where the model has none."""
    nothing = {"latency_ms": None, "low_ms": None, "high_ms": None}
    return [
        {**network_json(item), **(forecast_json(forecasts[item.key]) if item.key in forecasts else nothing)}
        for item in references
    ]
