"""The command itself: help, exit codes, one line for an error, and what it imports."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperCommand

from latcast import __version__
from latcast.cli import main
from latcast.cli.main import SECTIONS
from latcast.datasets.store import Store
from latcast.extras import PACKAGES
from tests.cli.conftest import Latcast, Outcome

HEAVY = {*PACKAGES, "sklearn"}
REPOSITORY = Path(__file__).parents[2]


COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


def _paths(command: Any, name: str, context: Any) -> Iterator[tuple[str, ...]]:
    """The words by which a command and all commands in it are called."""
    yield (name,)
    for inner in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from ((name, *words) for words in _paths(command.get_command(context, inner), inner, context))


def _all_paths() -> list[tuple[str, ...]]:
    group = main._main()
    context = group.make_context("latcast", [], resilient_parsing=True)
    return [words for name in COMMANDS for words in _paths(group.get_command(context, name), name, context)]


ALL_PATHS = _all_paths()


def test_help_names_every_command_with_one_line(latcast: Latcast) -> None:
    found = latcast("--help")

    assert found.code == 0
    for name, (_, text) in COMMANDS.items():
        assert f"  {name.ljust(10)}  {text}\n" in found.out
    assert found.out.index("\nCommands:\n") < found.out.index("  demo ") < found.out.index("\nFurther commands:\n")


@pytest.mark.parametrize("words", ALL_PATHS, ids=" ".join)
def test_every_command_has_help_with_examples_that_parse(
    words: tuple[str, ...], latcast: Latcast, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("DIR").mkdir()
    Path("run.txt").touch()
    Path("kit").mkdir()

    found = latcast(*words, "-h")

    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(f"Usage: latcast {' '.join(words)} ")
    assert re.findall("<[a-z]+>", found.out) == []  # values have names in words
    _, _, after = found.out.partition("\n  Examples:\n")
    examples = [line.strip() for line in itertools.takewhile(str.strip, after.splitlines())]
    assert 1 <= len(examples) <= 5
    monkeypatch.setattr(TyperCommand, "invoke", lambda self, context: None)
    for example in examples:
        program, first, *rest = shlex.split(example)
        assert (program, first) == ("latcast", words[0])
        assert latcast(first, *rest) == Outcome(0, "", "")


def test_commands_are_documented_in_the_order_of_the_help() -> None:
    text = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    documented = re.findall(r"^## latcast ([a-z]+)", text, re.MULTILINE)

    assert documented
    assert documented == [name for name in COMMANDS if name in documented]


def test_a_command_without_a_platform_names_the_list_of_platforms(latcast: Latcast) -> None:
    found = latcast("predict", "resnet18")

    assert (found.code, found.out) == (2, "")
    assert "Missing option '--on'. It names the device" in found.err
    assert "latcast platforms lists what it may be." in found.err


def test_a_misspelt_command_is_answered_with_the_nearest(latcast: Latcast) -> None:
    found = latcast("predcit", "resnet18")

    assert found.code == 2
    assert found.err.splitlines()[-1] == "Error: No such command 'predcit'. Did you mean 'predict'?"
    assert latcast("workgroups", "advize").err.endswith("Did you mean 'advise'?\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("latcast hub quarantine re", ["release"]),
        ("latcast predict resnet15", ["resnet152"]),
        ("latcast predict resnet18 --on local,pixel4/tflite-2.10/g", ["local,pixel4/tflite-2.10/gpu/fp16"]),
    ],
)
def test_the_shell_completes_commands_networks_and_platforms(words: str, expected: list[str]) -> None:
    found = python(
        "-m", "latcast.cli.main", _LATCAST_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" "))
    )

    assert (found.returncode, found.stdout.split()) == (0, expected)


def test_the_version_is_the_packages(latcast: Latcast) -> None:
    assert latcast("--version").out == f"latcast {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuch",),
        ("predict",),
        ("predict", "resnet18", "--on", "local", "--nosuch"),
        ("measure", "resnet18", "--threads", "0"),
        ("measure", "resnet18", "--precision", "fp7"),
        ("measure", "resnet18", "--runtime", "nosuch"),
        ("measure", "resnet18", "--cpus", "one"),
        ("profile", "--learn-from", "nosuch"),
        ("profile", "--model", "nosuch"),
        ("profile", "--budget", "0"),
    ],
)
def test_a_wrong_call_shows_the_usage_and_exits_with_2(latcast: Latcast, arguments: tuple[str, ...]) -> None:
    found = latcast(*arguments)

    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("Usage: latcast")
    assert "\nError: " in found.err


class TestUnexpectedErrors:
    @pytest.fixture(autouse=True)
    def broken(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A command with a defect, and one that is interrupted."""
        (tmp_path / "defective.py").write_text("def command() -> None:\n    raise KeyError('a\\nkey')\n")
        (tmp_path / "full.py").write_text(
            "import errno\ndef command() -> None:\n    raise OSError(errno.ENOSPC, 'No space left')\n"
        )
        (tmp_path / "endless.py").write_text(
            "from latcast.cli.output import kept_when_interrupted\n"
            "@kept_when_interrupted('nothing is lost')\ndef command() -> None:\n    raise KeyboardInterrupt\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(
            main,
            "SECTIONS",
            {"Commands": {"defective": ("defective", "Breaks."), "endless": ("endless", "Waits."), "full": ("full", "Writes.")}},
        )

    def test_an_unexpected_error_is_one_line_that_says_how_to_see_more(self, latcast: Latcast) -> None:
        assert latcast("defective").reason == r"unexpected KeyError: 'a\nkey'; LATCAST_DEBUG=1 shows where, please report it"

    def test_a_full_disk_is_not_reported_as_a_defect(self, latcast: Latcast) -> None:
        assert latcast("full").reason == "No space left; free some and run the same command again"

    def test_an_unexpected_error_is_raised_for_debugging(self, latcast: Latcast, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LATCAST_DEBUG", "1")

        with pytest.raises(KeyError):
            latcast("defective")

    def test_an_interrupt_is_one_line_with_what_is_kept_and_exits_with_130(self, latcast: Latcast) -> None:
        found = latcast("endless")

        assert (found.code, found.out, found.err) == (130, "", "latcast: interrupted; nothing is lost\n")


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )


def test_python_m_latcast_is_the_command() -> None:
    found = python("-m", "latcast", "--version")

    assert (found.returncode, found.stdout, found.stderr) == (0, f"latcast {__version__}\n", "")


@pytest.mark.parametrize("module", ["typer", "latcast.cli.main", "latcast.cli.predict", "latcast.forecast"])
def test_ctrl_c_while_modules_load_is_one_line(module: str) -> None:
    script = (
        "import sys\n"
        "from latcast.__main__ import main\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.exit(main())\n"
    )
    found = python("-c", script, "predict", "resnet18", "--on", "pixel4/tflite-2.10/gpu/fp16")

    assert (found.returncode, found.stdout, found.stderr) == (130, "", "latcast: interrupted\n")


def test_an_error_ends_the_process_with_its_code(home: Path) -> None:
    found = python("-m", "latcast", "predict", "resnet18", "--on", "nosuch")

    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("latcast: no predictor for 'nosuch'")


def test_a_prediction_needs_no_database_runtime_or_training_library(bundle: Path, model_file: Path) -> None:
    script = (
        "import json, sys\nfrom latcast.cli.main import run\n"
        f"code = run(['predict', {str(model_file)!r}, '--on', {str(bundle)!r}, '--json'])\n"
        f"print(json.dumps([code, sorted({HEAVY!r} & set(sys.modules))]), file=sys.stderr)"
    )

    found = python("-c", script)

    assert json.loads(found.stderr.splitlines()[-1]) == [0, []]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("arguments", "streams", "code", "lines", "unbuffered"),
    [
        ("--version", ">&-", 1, 1, ""),
        ("--version", "> /dev/full", 1, 1, ""),
        ("models mnasnet", "> /dev/full", 1, 1, "1"),
        ("models mnasnet", "| true; exit ${PIPESTATUS[0]}", 0, 0, "1"),
        ("platforms", "| head -1 > /dev/null; exit ${PIPESTATUS[0]}", 0, 0, ""),
        ("check mobilenet_v2 --on pixel4/tflite-2.10/1large/fp32 --max-ms 1", "| true; exit ${PIPESTATUS[0]}", 3, 0, "1"),
        ("--version", "<&-", 0, 0, ""),
        ("predict no.onnx --on x", "2>&- >&-", 1, 0, ""),
        ("predict --no-such-option", "2> /dev/full", 2, 0, ""),
    ],
)
@pytest.mark.usefixtures("home")
def test_an_output_stream_that_cannot_be_written_is_one_line_and_an_error(
    arguments: str, streams: str, code: int, lines: int, unbuffered: str
) -> None:
    found = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m latcast {arguments} {streams}"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(REPOSITORY / "src")},
    )  # fmt: skip

    assert (found.returncode, len(found.stderr.splitlines())) == (code, lines), found.stderr
    assert found.stdout == "" or code == 0
    assert all(line.startswith("latcast: standard output takes no more") for line in found.stderr.splitlines())


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "kept.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-m", "latcast", "profile", "--budget", "0.5", "--store", str(store)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while not Store(store).keys() if store.exists() else True:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "latcast: interrupted; what was measured is kept: the same command goes on with it"
    with Store(store) as kept:
        assert kept.keys()


def test_without_a_command_the_help_is_shown(latcast: Latcast) -> None:
    shown = latcast()

    assert shown.code == 0
    assert shown.out == latcast("--help").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "m.onnx", "--on", "pixel 7", "--threads", "4"), "No such option: --threads. Say it behind the device"),
        (("predict", "m.onnx", "--device", "pixel 7"), "No such option: --device. --on names the device"),
        (("predict", "m.onnx", "-on", "pixel 7"), "No such option: -o. --on names the device"),
        (("check", "m.onnx", "--batch", "4"), "No such option: --batch. --shape 1,3,640,640"),
        (("predict", "m.onnx", "--format", "json"), "No such option: --format. --json prints JSON"),
        (("benchmark", "m.onnx"), "No such command 'benchmark'. Did you mean 'measure'?"),
        (("devices",), "No such command 'devices'. Did you mean 'platforms'?"),
        (("help", "predict"), "No such command 'help'. It is --help"),
        (
            ("predict", "resnet18", "--on", "raspberry", "pi", "5"),
            "a device's name of several words needs quotes: --on 'raspberry pi 5'",
        ),
    ],
)
def test_a_call_that_other_tools_take_is_answered_with_how_it_is_said_here(
    latcast: Latcast, arguments: tuple[str, ...], said: str
) -> None:
    found = latcast(*arguments)

    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_a_device_in_the_place_of_a_model_is_told_from_one_that_is_unknown(latcast: Latcast) -> None:
    device = latcast("predict", "resnet18", "galaxy s23", "--on", "pixel 7")
    unknown = latcast("predict", "resnet81", "--on", "pixel 7")

    assert (device.code, unknown.code) == (2, 1)
    assert "'galaxy s23' is a device, where a model is expected; --on takes several: --on 'pixel 7,galaxy s23'" in device.err
    assert "no published model is called 'resnet81'" in unknown.err


def test_an_option_that_the_command_has_no_other_words_for_is_refused_as_it_was(latcast: Latcast) -> None:
    assert latcast("platforms", "--threads", "2").err.endswith("Error: No such option: --threads\n")
