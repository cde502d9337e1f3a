"""Checks of models against limits."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from latcast.errors import LatcastError
from latcast.forecast import predict
from latcast.platforms import load
from latcast.predictors.bundle_index import resolve_platform
from latcast.predictors.conditions import Conditions
from latcast.predictors.contention import keep_factors
from latcast.records import Platform
from latcast.report.check import CheckReport, Tier, check, read_budget
from latcast.report.choose import choose
from latcast.tables import milliseconds

PHONE, OTHER_PHONE = "pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/gpu/fp16"


def checked(max_ms: float, fail_above: float = 50.0) -> CheckReport:
    return check("resnet18", [Tier("phones", (PHONE,), max_ms=max_ms)], fail_above=fail_above)


def test_a_prediction_above_its_limit_fails_and_one_below_passes() -> None:
    latency_ms = predict("resnet18", PHONE).latency_ms

    below, above = checked(latency_ms * 1.001), checked(latency_ms * 0.999)

    assert (below.passed, above.passed) == (True, False)
    [found] = above.checks
    assert (found.model, found.platform, found.tier, found.kind) == ("resnet18", PHONE, "phones", "latency")
    assert (found.value, found.latency_ms, found.level) == (latency_ms, latency_ms, 90.0)


def test_the_bounds_of_the_interval_are_where_five_percent_are_over_or_below() -> None:
    found = predict("resnet18", PHONE)

    assert checked(found.high_ms).checks[0].probability == pytest.approx(0.05)
    assert checked(found.low_ms).checks[0].probability == pytest.approx(0.95)


def test_at_95_only_what_is_surely_over_fails_and_at_5_only_what_is_surely_within_passes() -> None:
    found = predict("resnet18", PHONE)
    inside_low, outside_low = found.low_ms * 1.002, found.low_ms * 0.998
    inside_high, outside_high = found.high_ms * 0.998, found.high_ms * 1.002

    assert [checked(limit, 95).passed for limit in (inside_low, outside_low)] == [True, False]
    assert [checked(limit, 5).passed for limit in (inside_high, outside_high)] == [False, True]


def test_memory_is_of_weights_and_activations_together() -> None:
    def passes(max_memory_mb: float) -> bool:
        return check("mobilenet_v2", [Tier("t", ("pixel4/tflite-2.10/1large/fp32",), max_memory_mb=max_memory_mb)]).passed

    # 3.5 million values of four bytes, and 6.6 MB of activations.
    assert passes(25)
    assert not passes(14.2)


def test_growth_is_of_the_base_with_an_interval_narrower_than_that_of_either_latency() -> None:
    wide = check("resnet34", against="resnet18", on=PHONE, max_growth=150)
    [found] = check("resnet34", against="resnet18", on=PHONE, max_growth=50).checks

    base, new = predict("resnet18", PHONE), predict("resnet34", PHONE)
    assert found.value == pytest.approx(100 * (new.latency_ms / base.latency_ms - 1))
    assert (found.base, found.base_ms, found.kind, found.passed) == ("resnet18", base.latency_ms, "growth", False)
    assert found.growth_low_percent is not None
    assert found.growth_high_percent is not None
    assert 50 < found.growth_low_percent < found.value < found.growth_high_percent < 150
    assert found.growth_high_percent - found.growth_low_percent < 100 * (new.high_ms / base.low_ms - new.low_ms / base.high_ms)
    assert found.probability == 1.0
    assert wide.passed


def test_an_unchanged_model_does_not_grow() -> None:
    [found] = check("resnet18", against="resnet18", on=PHONE, max_growth=0, fail_above=0).checks

    assert (found.value, found.growth_low_percent, found.growth_high_percent) == (0.0, 0.0, 0.0)
    assert (found.probability, found.passed) == (0.0, True)
    # The most likely growth is at the limit, not above it.
    assert check("resnet18", against="resnet18", on=PHONE, max_growth=0, fail_above=50).passed


def test_a_tier_holds_for_the_models_that_it_names_and_its_platforms_may_be_patterns() -> None:
    tiers = [Tier("small", ("pixel4/*/gpu/*",), ("mobile*",), max_ms=1000), Tier("rest", (PHONE,), ("res*",), max_ms=1000)]

    found = check(["resnet18", "mobilenet_v2"], tiers)

    assert [(each.model, each.platform, each.tier) for each in found.checks] == [
        ("mobilenet_v2", "pixel4/pytorch-2.0/gpu/fp16", "small"),
        ("mobilenet_v2", PHONE, "small"),
        ("resnet18", PHONE, "rest"),
    ]
    assert Tier("t", (PHONE,), ("*.onnx",)).holds_for("some/folder/a.onnx")
    with pytest.raises(LatcastError, match=r"no tier of the budget holds for alexnet; found small: mobile\*; rest: res\*"):
        check("alexnet", tiers)


def test_a_budget_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "latcast.toml"
    path.write_text(
        '[tiers.fast]\nplatforms = "a"\nmax_ms = 5\n'
        '[tiers.small]\nplatforms = ["b", "c"]\nmodels = "*.onnx"\nmax_memory_mb = 2.5\n'
    )

    assert read_budget(path) == (
        Tier("fast", ("a",), max_ms=5.0),
        Tier("small", ("b", "c"), ("*.onnx",), max_memory_mb=2.5),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[tiers", "not TOML"),
        ("", "found nothing, expected tables"),
        ("[budget]\nmax_ms = 3", "found budget, expected tables"),
        ("[tiers.t]\nplatforms = 'p'", "found no limit"),
        ("[tiers.t]\nmax_ms = 5", "found no platforms"),
        ("[tiers.t]\nplatforms = 'p'\nmax_ms = 0", "expected a positive number"),
        ("[tiers.t]\nplatforms = []\nmax_ms = 5", "expected a text or a list of texts"),
        ("[tiers.t]\nplatforms = 'p'\nmaximum_ms = 5", "found maximum_ms, expected max_memory_mb, max_ms, models, platforms"),
    ],
)
def test_a_malformed_budget_is_refused_with_its_file(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "latcast.toml"
    path.write_text(text)

    with pytest.raises(LatcastError, match=reason) as found:
        read_budget(path)
    assert str(path) in str(found.value)


def test_either_a_budget_or_a_base_is_needed_and_a_base_needs_platforms() -> None:
    with pytest.raises(LatcastError, match="limits, a budget or a base"):
        check("resnet18")
    with pytest.raises(LatcastError, match="one of these alone"):
        check("resnet18", against="resnet34", max_ms=1)
    with pytest.raises(LatcastError, match="limits need platforms"):
        check("resnet18", max_ms=1)
    with pytest.raises(LatcastError, match="needs platforms"):
        check("resnet18", against="resnet34")
    with pytest.raises(LatcastError, match="from 0 to 100"):
        checked(5, fail_above=101)


def test_a_model_is_checked_against_limits_on_platforms() -> None:
    [latency] = check("resnet18", on=PHONE, max_ms=1e3).checks
    [rate, memory] = check("resnet18", on=PHONE, min_fps=500, max_ms=10, max_memory_mb=1e3).checks

    assert (latency.passed, latency.limit) == (True, 1e3)
    assert (rate.passed, rate.limit, rate.kind) == (False, 2.0, "latency")
    assert (memory.passed, memory.kind) == (True, "memory")


def test_json_carries_the_version_and_the_hash_of_each_bundle() -> None:
    document = json.loads(json.dumps(checked(5).to_json()))

    path = resolve_platform(PHONE)
    assert isinstance(path, Path)
    assert document["bundles"] == {PHONE: hashlib.sha256(path.read_bytes()).hexdigest()}
    assert (document["passed"], document["fail_above"]) == (False, 50.0)
    assert document["latcast"]
    assert {"model", "platform", "limit", "latency_ms", "low_ms", "high_ms", "level", "passed"} <= set(document["checks"][0])
    in_memory = check("resnet18", against="resnet18", on=load(PHONE))
    assert in_memory.bundles == {PHONE: None}


def names(values: Sequence[ElementTree.Element]) -> list[str | None]:
    return [each.get("name") for each in values]


def test_junit_has_a_case_a_check_and_a_failure_where_it_failed() -> None:
    found = check(["resnet18", "mobilenet_v2"], [Tier("phones", (PHONE,), max_ms=10)])

    suite = ElementTree.fromstring(found.to_junit())

    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert names(suite.findall("testcase")) == [f"latency on {PHONE} (phones)"] * 2
    [failed] = [case for case in suite if case.find("failure") is not None]
    assert failed.get("classname") == "resnet18"


def test_markdown_and_annotations_say_which_failed_with_signs_escaped() -> None:
    found = check(["resnet18", "mobilenet_v2"], [Tier("a|b", (PHONE,), max_ms=10)])

    assert found.to_markdown().startswith("**latcast: 1 of 2 checks failed**\n")
    assert "| **fail** | resnet18 | pixel4/tflite-2.10/gpu/fp16 | a\\|b | 20.3 ms" in found.to_markdown()
    error, notice = found.to_github().splitlines()
    assert error.startswith(f"::error file=resnet18,title=latcast latency on {PHONE}::20.3 ms")
    assert error.endswith("100 %25 likely to be over it; good, ±3 %25")
    assert notice.startswith("::notice file=mobilenet_v2,")


def test_a_model_that_cannot_be_checked_takes_no_other_with_it_and_stands_in_every_report(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    broken = str(tmp_path / "broken.onnx")
    tiers = [Tier("small", (PHONE,), ("*18", "*.onnx"), max_ms=1000)]

    found = check([broken, "resnet18", "alexnet"], tiers)
    grown = check([broken, "resnet18"], against="resnet34", on=PHONE)

    assert [each.model for each in found.checks] == [each.model for each in grown.checks] == ["resnet18"]
    assert all(each.passed for each in (*found.checks, *grown.checks))
    assert (found.passed, grown.passed) == (False, False)
    assert [each.model for each in found.refused] == [broken, "alexnet"]
    assert "no tier of the budget holds for alexnet" in found.refused[1].reason
    assert [each["model"] for each in found.to_json()["refused"]] == [broken, "alexnet"]
    suite = ElementTree.fromstring(found.to_junit())
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "0", "2")
    assert [case.get("classname") for case in suite if case.find("error") is not None] == [broken, "alexnet"]
    assert found.to_markdown().count("**error**") == 2
    assert [line.partition(" ")[0] for line in found.to_github().splitlines()] == ["::notice", "::error", "::error"]
    with pytest.raises(LatcastError, match=r"broken\.onnx"):
        check(broken, tiers)


@pytest.fixture
def contended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """The steady latency, where a program on another core makes runs half as long again and nothing else was measured."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    keep_factors(Platform.parse(PHONE), {"memory": 1.5})
    return predict("resnet18", PHONE).latency_ms


def test_a_limit_holds_under_each_condition_that_is_asked_for(contended: float) -> None:
    asked = Conditions(minutes=30, beside=("memory",))

    found = check("resnet18", on=PHONE, max_ms=1.2 * contended, conditions=asked)

    hot, beside = found.checks
    assert (hot.condition, beside.condition) == ("after 30 min", "beside memory")
    assert beside.value == pytest.approx(1.5 * contended)
    assert not beside.passed
    assert all(each.sentence().endswith(f"; steady latency {each.grade.in_words()}") for each in found.checks)
    assert check("resnet18", on=PHONE, max_ms=1.8 * contended, conditions=Conditions(beside=("memory",))).passed
    steady = check("resnet18", on=PHONE, max_ms=1.2 * contended)
    assert steady.passed
    assert "steady" not in steady.checks[0].sentence()
    names = [case.get("name") for case in ElementTree.fromstring(found.to_junit())]
    assert names == [f"latency after 30 min on {PHONE}", f"latency beside memory on {PHONE}"]


@pytest.mark.usefixtures("contended")
@pytest.mark.parametrize("asked", [Conditions(start=True), Conditions(beside=("compute",))])
def test_a_latency_that_is_not_known_is_not_checked(asked: Conditions) -> None:
    found = check("resnet18", on=PHONE, max_ms=100, conditions=asked)

    assert not found.checks
    assert not found.passed
    [refusal] = found.refused
    assert refusal.model == "resnet18"
    assert f"on {PHONE} is not known" in refusal.reason


def test_of_a_paced_network_limits_beyond_its_bounds_are_checked_and_those_between_are_not() -> None:
    asked = Conditions(minutes=30, fps=10)
    hot = predict("resnet18", PHONE, conditions=asked).sustained
    assert hot is not None
    low_ms, high_ms = hot.low_ms, hot.high_ms
    assert low_ms is not None
    assert high_ms is not None

    above, below, between = (
        check("resnet18", on=PHONE, max_ms=limit_ms, conditions=asked) for limit_ms in (high_ms, low_ms, (low_ms + high_ms) / 2)
    )

    assert [each.checks[0].passed for each in (above, below)] == [True, False]
    # 90 % lie between the bounds, 5 % beyond each.
    assert [each.checks[0].probability for each in (above, below)] == pytest.approx([0.05, 0.95])
    assert [(each.checks[0].value, each.checks[0].low_ms) for each in (above, below)] == [(None, low_ms)] * 2
    assert f"after 30 min {milliseconds(low_ms)} to {milliseconds(high_ms)} ms, within the limit" in above.checks[0].sentence()
    assert not between.checks
    assert "known by its bounds alone" in between.refused[0].reason


@pytest.mark.usefixtures("contended")
def test_where_one_latency_is_not_known_the_others_are_checked() -> None:
    asked = Conditions(start=True, beside=("memory",))

    found = check(["resnet18", "alexnet"], on=[PHONE, OTHER_PHONE], max_ms=1e4, conditions=asked)

    assert [(each.model, each.platform) for each in found.checks] == [("resnet18", PHONE), ("alexnet", PHONE)]
    assert all(each.passed for each in found.checks)
    assert not found.passed
    assert [each.model for each in found.refused] == ["resnet18", "alexnet", *["resnet18"] * 2, *["alexnet"] * 2]
    assert [each.reason.partition(" is not known")[0] for each in found.refused[1:4]] == [
        f"the latency until the first answer on {PHONE}",
        f"the latency until the first answer on {OTHER_PHONE}",
        f"the latency beside memory on {OTHER_PHONE}",
    ]
    assert all("no network was measured beside" in each.reason for each in found.refused if "beside memory" in each.title)
    refused = [case.get("name") for case in ElementTree.fromstring(found.to_junit()) if case.find("error") is not None]
    assert refused == [each.title for each in found.refused]
    assert refused[:2] == [f"latency until the first answer on {name}" for name in (PHONE, PHONE)]
    assert found.to_markdown().count("**error**") == len(found.refused)


@pytest.mark.usefixtures("contended")
def test_a_tier_without_a_limit_of_latency_needs_no_latency_under_conditions() -> None:
    tiers = [Tier("small", (PHONE,), max_memory_mb=500.0)]

    [memory] = check("resnet18", tiers, conditions=Conditions(start=True)).checks

    assert (memory.kind, memory.passed) == ("memory", True)


def test_inferences_a_second_are_no_limit_of_the_first_answer() -> None:
    for limits in ({"min_fps": 5.0}, {"min_fps": 5.0, "max_ms": 500.0}):
        with pytest.raises(LatcastError, match="expected max_ms"):
            check("resnet18", on=PHONE, conditions=Conditions(start=True), **limits)


def test_conditions_are_of_a_latency() -> None:
    for limits in ({"max_memory_mb": 100.0}, {"against": "resnet18"}):
        with pytest.raises(LatcastError, match="conditions without a limit of latency"):
            check("resnet18", on=PHONE, conditions=Conditions(minutes=30), **limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [{"max_ms": math.nan}, {"max_ms": math.inf}, {"min_fps": 0.0}, {"max_memory_mb": -1.0}])
def test_a_limit_is_a_positive_number(limit: dict[str, float]) -> None:
    [name] = limit
    with pytest.raises(LatcastError, match=f"found {name} = .*, expected a positive number"):
        check("resnet18", on=PHONE, **limit)
    if name != "min_fps":
        with pytest.raises(LatcastError, match=f"found {name} = .*, expected a positive number"):
            choose(PHONE, **limit)
