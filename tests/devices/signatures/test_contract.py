"""Every selection that latcast has, against the contract of selections."""

from __future__ import annotations

from latcast.devices.signatures import SELECTIONS
from latcast.testing.selection_contract import SelectionContract


class TestRandom(SelectionContract):
    selection_name = "random"


class TestMutualInformation(SelectionContract):
    selection_name = "mutual_information"


class TestSpearman(SelectionContract):
    selection_name = "spearman"


class TestPredictionError(SelectionContract):
    selection_name = "prediction_error"


def test_every_selection_is_tested() -> None:
    tested = {case.selection_name for case in (TestRandom, TestMutualInformation, TestSpearman, TestPredictionError)}

    assert set(SELECTIONS.names()) == tested
