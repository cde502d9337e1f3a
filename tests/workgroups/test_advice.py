"""Advice for one convolution."""

from __future__ import annotations

import json
from dataclasses import replace

from latcast.workgroups.advice import advise
from latcast.workgroups.devices import load_profile
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.workloads import CONV, convolution


def test_the_papers_convolution_on_a_phone_of_its_table() -> None:
    found = advise(convolution(56, 56, 256, 256), load_profile("hikey970"), 9)

    assert found.candidates == 5364
    assert found.survivors == 9
    assert found.applied == ("V", "III", "IV")
    assert "K_ac" in found.why["II"]
    first = found.shortlist[0]
    # 2 · 2 · 8 = 4 · 8, and each of 64 items reads 32 + 32 vectors with 127 others: 64 / 128.
    assert (first.size, first.accesses, first.padding) == (WorkGroup(2, 8, 8), 0.5, 0.0)
    assert first.verdicts == {"I": "fails", "II": "cannot be evaluated", "III": "passes", "IV": "passes", "V": "passes"}
    assert found.default.size == WorkGroup(16, 1, 16)


def test_accesses_that_were_not_counted_are_not_given() -> None:
    kernel = replace(CONV, accesses_counted=False)
    found = advise(convolution(8, 8, 16, 16, descriptor=kernel), load_profile("mi9"))

    assert found.shortlist[0].accesses is None
    assert found.default.verdicts["V"] == "cannot be evaluated"


def test_advice_is_json() -> None:
    found = advise(convolution(8, 8, 16, 16), load_profile("mi9"), 3).to_json()

    assert len(json.loads(json.dumps(found))["shortlist"]) == 3
    assert found["tflite_kfast"]["items"] == 4 * 4 * 4
