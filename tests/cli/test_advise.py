"""``latcast advise``."""

from __future__ import annotations

import pytest

from latcast.predictors import bundle_index
from tests.cli.conftest import Latcast
from tests.cli.dataset import PLATFORM

SHIPPED = bundle_index.SHIPPED_FOLDER
GPUS = "pixel4/*/gpu/*"


@pytest.fixture
def shipped(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The predictors that come with the package."""
    monkeypatch.setattr(bundle_index, "SHIPPED_FOLDER", SHIPPED)


@pytest.mark.usefixtures("shipped")
def test_platforms_are_a_table_and_decisions_sentences_with_their_reasons(latcast: Latcast) -> None:
    found = latcast("advise", "squeezenet1_1", "--on", GPUS)
    heading, first, second, _, decision, *reasons = found.out.splitlines()

    assert heading.split()[:2] == ["platform", "latency"]
    assert first.split()[0] == "pixel4/tflite-2.10/gpu/fp16"
    assert second.split()[0] == "pixel4/pytorch-2.0/gpu/fp16"
    assert decision.startswith("runtime of pixel4/tflite-2.10/gpu/fp16: tflite, not pytorch: sure (")
    assert reasons[0].startswith("  gained: conv ")


@pytest.mark.usefixtures("shipped")
def test_json_has_platforms_and_decisions_with_probabilities(latcast: Latcast) -> None:
    found = latcast("advise", "squeezenet1_1", "--on", GPUS, "--json").json

    assert (found["schema"], found["model"], found["on"], found["sure_percent"]) == (1, "squeezenet1_1", [GPUS], 95.0)
    assert sum(each["fastest_probability"] for each in found["platforms"]) == pytest.approx(1.0)
    [decision] = found["decisions"]
    assert (decision["question"], decision["first"], decision["sure"]) == ("runtime", "tflite", True)
    assert decision["ratio"] == pytest.approx(found["platforms"][1]["latency_ms"] / found["platforms"][0]["latency_ms"])


@pytest.mark.usefixtures("shipped")
def test_a_long_list_is_cut_and_says_so(latcast: Latcast) -> None:
    lines = latcast("advise", "squeezenet1_1", "--on", GPUS, "--top", 1).out.splitlines()

    assert lines[2] == "and 1 more (--top 2)"


@pytest.mark.usefixtures("bundle")
def test_one_platform_is_the_fastest_and_there_is_nothing_to_decide(latcast: Latcast) -> None:
    found = latcast("advise", "squeezenet1_1", "--on", "local", "--json").json

    assert [(each["platform"], each["fastest_probability"]) for each in found["platforms"]] == [(PLATFORM, 1.0)]
    assert found["decisions"] == []


def test_a_device_without_platforms_is_refused(latcast: Latcast) -> None:
    assert "no platform of 'nokia 3310' is known" in latcast("advise", "squeezenet1_1", "--on", "nokia 3310").reason
    assert "nothing was measured on 'Galaxy S24'" in latcast("advise", "squeezenet1_1", "--on", "Galaxy S24").reason
