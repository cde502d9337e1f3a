"""Memory is judged on networks that the planners were not written with."""

import pytest

from benchmarks.memory import NETWORKS, WRITTEN_WITH, summary


def test_no_judged_network_is_one_that_the_planners_were_written_with() -> None:
    assert len(set(NETWORKS)) == 40
    assert set(NETWORKS).isdisjoint(WRITTEN_WITH)


def test_errors_are_of_what_is_predicted_over_what_was_measured() -> None:
    about = {"runtime": "litert", "precision": "fp32", "measured_file_bytes": 100, "predicted_file_bytes": 101}
    rows = [
        {**about, "model": name, "measured_bytes": 100, "predicted_bytes": predicted}
        for name, predicted in (("a", 104), ("b", 92), ("c", 130))
    ]

    (found,) = summary(rows)

    assert (found["networks"], found["mape"], found["median_ape"]) == (3, pytest.approx(14), pytest.approx(8))
    assert (found["worst"], found["worst_model"], found["file_mape"]) == (pytest.approx(30), "c", pytest.approx(1))
