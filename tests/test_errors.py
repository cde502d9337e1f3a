"""Messages are safe to show, whatever a stranger's file put into them."""

from __future__ import annotations

import pickle
import sys

import pytest

if sys.version_info >= (3, 11):
    pass
else:
    pass

from latcast.errors import DatasetError, LatcastError, MissingExtraError, one_line, printable


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("\x1b[31mred", r"\u001b[31mred"),
        ("a\x07\x7f", r"a\u0007\u007f"),
        ("\x9b31m", r"\u009b31m"),
        ("abc\u202ecba", r"abc\u202ecba"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("Überraschung ± 5 µs", "Überraschung ± 5 µs"),
    ],
)
def test_control_characters_are_escaped(found: str, shown: str) -> None:
    assert printable(found) == shown
    assert str(LatcastError(found)) == shown


def test_a_message_is_one_line() -> None:
    assert str(DatasetError("found this\r\n  and that\u2028and\tmore")) == "found this and that and more"


def test_a_long_message_loses_its_middle() -> None:
    message = str(LatcastError("file.onnx: node '" + "n" * 20_000 + "' is unknown; update latcast"))

    assert len(message) == 480
    assert message.startswith("file.onnx: node 'nnn")
    assert message.endswith("nnn' is unknown; update latcast")
    assert "nnn [...] nnn" in message


def test_escapes_count_towards_the_length() -> None:
    assert len(one_line("\x1b" * 2000)) == 480


def test_a_message_within_another_is_not_escaped_twice() -> None:
    inner = LatcastError("\x1b[0m")

    assert str(DatasetError(f"x.jsonl:1: {inner}")) == r"x.jsonl:1: \u001b[0m"


def test_an_error_that_is_copied_to_another_process_says_the_same() -> None:
    problem = pickle.loads(pickle.dumps(DatasetError("x\ny")))

    assert (type(problem), str(problem)) == (DatasetError, "x y")
    assert "pip install 'latcast[torch]'" in str(MissingExtraError("torch", "torch", "reading .pt2 files"))
