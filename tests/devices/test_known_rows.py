"""A device is known by its likeness to others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.devices.device_model import DeviceModel, KnownPlatform
from latcast.devices.known_rows import LIKENESS, TWIN, most_like, row_members
from latcast.predictors.device_forecast import by_member
from latcast.predictors.network_features import TERM_NAMES
from tests.devices.made_up_devices import features, fitted, platforms

MEASURED = np.arange(0, 20, 2)
OTHERS = np.arange(1, 20, 2)

KNOWN = fitted().platforms[6]


def with_habits() -> DeviceModel:
    """Every platform deviates from its state by its own ±20 % on each network: only its row can say so."""
    rng = np.random.default_rng(0)

    def own(each: KnownPlatform) -> KnownPlatform:
        return replace(each, log_ms=each.log_ms + 0.2 * rng.choice([-1.0, 1.0], len(each.log_ms)))

    return replace(fitted(), platforms=tuple(map(own, fitted().platforms)))


def forecasts(model: DeviceModel, measured_log_ms: np.ndarray, rows: np.ndarray = MEASURED) -> dict[str, np.ndarray]:
    """By member: logarithms of the networks that were not measured."""
    described = model.described(features())
    found = row_members(model, "cpu", KNOWN.covariates, described.rows(rows), measured_log_ms, "")
    tested = described.rows(OTHERS)
    memory = model.memory("cpu", KNOWN.covariates)
    nearest = memory.nearest(tested.place)
    log_ms = by_member(found, tested.terms, tested.basis, np.zeros(len(OTHERS)), np.zeros(len(OTHERS)), nearest)[0]
    return dict(zip((each.name for each in found), log_ms + memory.recalled_of(*nearest)[0], strict=True))


def test_a_platform_times_a_factor_is_recovered_exactly() -> None:
    model = with_habits()
    row = model.platforms[6].log_ms

    found = forecasts(model, row[MEASURED] + np.log(1.08))

    assert found[TWIN] == pytest.approx(row[OTHERS] + np.log(1.08), abs=0.01)
    assert found[LIKENESS] == pytest.approx(row[OTHERS] + np.log(1.08), abs=0.02)


def test_the_twin_is_named_with_its_factor() -> None:
    model = with_habits()
    seen = model.described(features()).rows(MEASURED)

    twin = most_like(model, "cpu", KNOWN.covariates, seen, model.platforms[6].log_ms[MEASURED] + np.log(1.08), "", 1)[0]

    assert (twin.platform, twin.factor) == (KNOWN.name, pytest.approx(1.08, rel=1e-3))
    assert twin.deviation == pytest.approx(0, abs=1e-3)
    assert not twin.same_chip


@pytest.mark.parametrize("shift", [-3.0, 2.0])
def test_a_device_so_many_times_as_slow_takes_so_many_times_as_long_as_its_twin(shift: float) -> None:
    row = platforms()[0].log_ms[MEASURED]

    once, slower = forecasts(fitted(), row)[TWIN], forecasts(fitted(), row + shift)[TWIN]

    assert slower - once == pytest.approx(np.full(len(OTHERS), shift), abs=0.05)


def test_a_slip_in_one_of_six_networks_leaves_the_twin_what_it_is() -> None:
    model, rows = with_habits(), np.array([0, 3, 7, 11, 13, 18])
    measured = model.platforms[6].log_ms[rows].copy()
    measured[2] += np.log(3.0)

    alike = most_like(model, "cpu", KNOWN.covariates, model.described(features()).rows(rows), measured, "", 3)

    assert (len(alike), alike[0].platform) == (3, KNOWN.name)


def test_without_measured_networks_or_rows_there_are_no_such_members() -> None:
    assert forecasts_names(fitted(), 0) == []
    assert forecasts_names(replace(fitted(), known_terms=np.zeros((0, 0))), 4) == []
    assert forecasts_names(fitted(), 1) == [TWIN, LIKENESS]


def forecasts_names(model: DeviceModel, count: int) -> list[str]:
    rows = MEASURED[:count]
    seen = model.described(features()).rows(rows)
    return [each.name for each in row_members(model, "cpu", KNOWN.covariates, seen, platforms()[0].log_ms[rows], "")]


VOLUME = TERM_NAMES.index("flops volume")

EMULATED = {**KNOWN.covariates, "runtime tflite qairt": 1.0}
"""Of a runtime that is stated to emulate volumes."""


def with_a_volume() -> DeviceModel:
    """The first known network is one convolution of a volume."""
    terms = fitted().known_terms.copy()
    terms[0] = 0.0
    terms[0, VOLUME] = 1.0
    return replace(fitted(), known_terms=terms)


def test_a_row_has_the_price_of_volumes_that_is_stated_of_the_device_s_runtime() -> None:
    model = with_a_volume()
    measured, price = model.rows_log_ms["cpu"], model.states[:, VOLUME]

    known = model.rows_under("cpu", EMULATED).known

    # Times the price stated, e^-3.5 of the unit, over the row's own.
    assert known[:, 0] == pytest.approx(measured[:, 0] - 3.5 - price)
    assert known[:, 1:] == pytest.approx(measured[:, 1:])
    assert model.rows_under("cpu", KNOWN.covariates).known == pytest.approx(measured)


@pytest.mark.parametrize(("covariates", "deviation"), [(EMULATED, 0.5), (KNOWN.covariates, 0.0)])
def test_a_row_of_another_runtime_leaves_a_volume_as_open_as_what_is_stated(
    covariates: dict[str, float], deviation: float
) -> None:
    model = fitted()
    seen = model.described(features()).rows(MEASURED)

    for found in row_members(model, "cpu", covariates, seen, platforms()[0].log_ms[MEASURED], ""):
        assert np.sqrt(found.covariance[VOLUME, VOLUME]) == pytest.approx(deviation)


def test_measured_volumes_leave_less_open() -> None:
    model = fitted()
    seen = model.described(features()).rows(MEASURED)
    volumes = seen.terms.copy()
    volumes[0] = np.eye(len(TERM_NAMES))[VOLUME]

    found = row_members(model, "cpu", EMULATED, replace(seen, terms=volumes), platforms()[0].log_ms[MEASURED], "")

    assert all(each.covariance[VOLUME, VOLUME] < 0.5**2 / 2 for each in found)
