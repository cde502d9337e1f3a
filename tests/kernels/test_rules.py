"""Fusion rules as JSON."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import BundleError, UnknownNameError
from latcast.kernels.patterns import shipped_patterns
from latcast.kernels.rules import RULES_SCHEMA, FusionRules, load_rules
from latcast.kernels.types.kernel_type import type_of_class

FOLDER = Path(str(resources.files("latcast.kernels").joinpath("rules")))
SHIPPED = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "patterns")
CLASSES = st.sampled_from(["conv", "depthwise_conv", "linear", "add", "relu", "relu6", "batch_normalization"])


@given(
    st.builds(
        FusionRules,
        runtime=st.text(max_size=8),
        version=st.text(max_size=8),
        pairs=st.dictionaries(CLASSES, st.frozensets(CLASSES)),
        patterns=st.lists(st.sampled_from(sorted(shipped_patterns())), unique=True).map(tuple),
        free=st.frozensets(CLASSES),
        multi_inbound=st.integers(0, 4),
        multi_outbound=st.integers(0, 2),
        evidence=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False)),
    )
)
def test_rules_come_back_from_json_as_they_were(rules: FusionRules) -> None:
    assert FusionRules.from_json(json.loads(json.dumps(rules.to_json()))) == rules


def test_the_runtimes_have_shipped_rules() -> None:
    assert {"litert", "ncnn", "none", "onnxruntime", "openvino"} <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rules_speak_of_operators_that_have_a_kernel_type(name: str) -> None:
    rules = load_rules(name)
    words = {*rules.pairs, *rules.free}.union(*rules.pairs.values())

    # A pattern inside a kernel needs no type of its own.
    assert [word for word in sorted(words - set(rules.patterns)) if type_of_class(word).name == "other"] == []
    assert rules.runtime


def test_rules_load_from_a_file(tmp_path: Path) -> None:
    rules = FusionRules("mine", pairs={"conv": frozenset({"relu"})})
    (tmp_path / "mine.json").write_text(json.dumps(rules.to_json()))

    assert load_rules(tmp_path / "mine.json") == rules


@pytest.mark.parametrize("name", ["onnxruntim", "patterns"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"for '{name}'; known: litert, ncnn, none, onnxruntime, .*openvino"):
        load_rules(name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no fusion rules at '.*gone\.json'"):
        load_rules(tmp_path / "gone.json")


@pytest.mark.parametrize("text", ["{", "\x80\x04", "[1, 2"])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(BundleError, match=r"bad\.json: not JSON"):
        load_rules(tmp_path / "bad.json")


GOOD: dict[str, Any] = {"schema": RULES_SCHEMA, "runtime": "r", "pairs": {"conv": ["relu"]}}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "not fusion rules: found no 'schema'"),
        ({"runtime": "r"}, "not fusion rules: found no 'schema'"),
        ({**GOOD, "schema": RULES_SCHEMA + 1}, f"schema {RULES_SCHEMA + 1}, .* update latcast"),
        ({"schema": RULES_SCHEMA, "pairs": {}}, "not fusion rules .*runtime"),
        ({**GOOD, "pairs": {"conv": "relu"}}, "expected a list of names, found 'relu'"),
        ({**GOOD, "pairs": ["conv"]}, "not fusion rules"),
        ({**GOOD, "free": "reshape"}, "expected a list of names, found 'reshape'"),
        ({**GOOD, "patterns": ["gellu"]}, "no pattern is called 'gellu'; known: .*gelu"),
        ({**GOOD, "multi_inbound": 5}, "multi_inbound 5 .* expected 0 to 4"),
        ({**GOOD, "multi_outbound": "first"}, "not fusion rules"),
    ],
)
def test_rules_of_another_form_are_refused_with_the_reason(data: Any, problem: str) -> None:
    with pytest.raises(BundleError, match=f"^mine: .*{problem}"):
        FusionRules.from_json(data, "mine")
