"""What is printed never steers a terminal, and fits the terminal's encoding."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from latcast.cli.output import PrintableOutput, print_bars, print_table
from tests.cli.conftest import Latcast

BENCHNCNN = """loop_count = 16
num_threads = 1
powersave = 0
gpu_device = -1
cooling_down = 0
       squeezenet1_1.param  min =    8.66  max =    9.76  avg =    8.90
"""
PLATFORM = "pixel4/tflite-2.10/gpu/fp16"
HOSTILE = "a\x1b]0;owned\x07\x1b[31mb\u202ec"
ESCAPED = r"a\u001b]0;owned\u0007\u001b[31mb\u202ec"


def _shown(act: Callable[[], None]) -> str:
    """What a terminal that has ASCII alone gets."""
    received = io.BytesIO()
    stream = io.TextIOWrapper(received, encoding="ascii", write_through=True)
    with redirect_stdout(PrintableOutput(stream)):
        act()
    return received.getvalue().decode("ascii")


def _latcast(*arguments: str, folder: Path, settings: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, output and messages of the command in a process of its own, with the shipped bundles."""
    command = [sys.executable, "-m", "latcast", *arguments]
    environment = {**os.environ, "LATCAST_HOME": str(folder / "home"), **(settings or {})}
    found = subprocess.run(command, env=environment, capture_output=True, check=False)
    return found.returncode, found.stdout.decode(), found.stderr.decode()


def test_a_table_has_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HOSTILE, (HOSTILE, "ms"), [(HOSTILE, "1.0"), ("a\nb", "2.0")])

    out = capsys.readouterr().out
    assert set("".join(out.split("\n"))) & {"\x1b", "\x07", "\u202e"} == set()
    assert len(out.splitlines()) == 4
    assert r"a\u000ab" in out


@pytest.mark.parametrize("available", [30, 45, 200])
def test_a_narrow_terminal_parts_words_alone(available: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(available))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    received = io.StringIO()
    with redirect_stdout(received):
        print_table("", ("model", "what it is", "90 % interval ms"), [("a/long/name.onnx", "three or more words", "1.2 to 3.4")])

    lines = re.sub(r"\x1b\[\d*m", "", received.getvalue()).splitlines()
    assert max(map(len, lines)) <= max(available, len("a/long/name.onnx  three  1.2 to 3.4"))
    words = " ".join(lines).split()
    assert {"a/long/name.onnx", "three", "interval"} <= set(words)
    assert "1.2 to 3.4" in " ".join(lines)


def test_plain_output_has_no_control_character_but_line_ends_and_tabs() -> None:
    assert _shown(lambda: print(f"{HOSTILE}\t1\n2")) == f"{ESCAPED}\t1\n2\n"


def test_a_character_that_the_encoding_lacks_is_spelt() -> None:
    found = _shown(lambda: print_table("", ("±5 %", "name"), [("10", "Größe")]))

    assert found.splitlines() == ["+-5 %  name", r"   10  Gr\xf6\xdfe"]


def test_commands_work_where_the_terminal_has_ascii_only(tmp_path: Path) -> None:
    code, out, err = _latcast("platforms", "pixel4", folder=tmp_path, settings={"LC_ALL": "C", "PYTHONUTF8": "0"})

    assert (code, err) == (0, "")
    assert PLATFORM in out


@pytest.mark.skipif(sys.getfilesystemencoding() != "utf-8", reason="no file may have that name here")
def test_names_of_a_models_nodes_are_shown_escaped(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name=HOSTILE)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 8, 8]) for name in "xy"]
    path = tmp_path / f"{HOSTILE}.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:])), path)

    code, out, err = _latcast("predict", str(path), "--on", PLATFORM, "--breakdown", folder=tmp_path)

    assert code == 0
    assert all(line.isprintable() for line in (out + err).split("\n"))
    assert ESCAPED in out


def test_an_error_is_one_printable_line_of_at_most_500_characters(latcast: Latcast) -> None:
    found = latcast("predict", f"{HOSTILE}{'x' * 3000}.onnx", "--on", PLATFORM)

    assert found.reason.isprintable()
    assert len(found.err) <= 500


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "import", "benchmark", "run.txt", "--on", "phone/ncnn-1.0/cpu1/fp32"),
        ("profile", "--budget", "0.1"),
        ("measure", "squeezenet1_1"),
    ],
)
def test_a_home_that_cannot_be_written_is_one_line(
    arguments: tuple[str, ...], latcast: Latcast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("run.txt").write_text(BENCHNCNN)
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "work" / "run.txt" / "home"))

    reason = latcast(*arguments).reason

    assert "run.txt/home" in reason
    assert "Not a directory" in reason
    assert "unexpected" not in reason


def test_bars_have_their_lengths_and_are_cut_off_at_twice_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latcast.cli.output.PLAIN_BARS", 30)
    # Names take 1 column, numbers 4 and the gaps 4, which leaves 21 for 0 to 20 ms: one a millisecond.
    shown = _shown(lambda: print_bars(["a", "b"], [(4, 6, 8), (30, 40, 50)], limit_ms=10)).splitlines()
    assert shown[0] == "a  ####==--  |" + 10 * " " + "  6.00"
    assert shown[1] == "b  " + 10 * "#" + "|" + 9 * "#" + "   40.0"
    assert shown[2] == "   # low end, = predicted, - high end of the interval, ms; | 10 ms"
