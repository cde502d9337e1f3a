"""Measurement plans."""

from __future__ import annotations

import pytest

from latcast.errors import MeasurementError
from latcast.measure.plan import KERNEL_PLAN, NETWORK_PLAN, MeasurePlan


@pytest.mark.parametrize("plan", [NETWORK_PLAN, KERNEL_PLAN, MeasurePlan(rounds=1, profile=True)])
def test_a_plan_survives_json(plan: MeasurePlan) -> None:
    assert MeasurePlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(("field", "value"), [("rounds", 0), ("runs_per_round", 0), ("warmup_runs", -1), ("batch_size", 0)])
def test_a_plan_that_measures_nothing_is_refused_with_field_and_value(field: str, value: int) -> None:
    with pytest.raises(MeasurementError, match=rf"{field} = {value}; expected at least"):
        MeasurePlan(**{field: value})


def test_a_plan_of_another_version_names_the_unknown_field() -> None:
    with pytest.raises(MeasurementError, match="no field 'temperature'"):
        MeasurePlan.from_json({"rounds": 2, "temperature": 40})
