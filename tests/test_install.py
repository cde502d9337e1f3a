"""The small install predicts; what else is needed is an extra, which is named before the work begins."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from latcast.cli.main import SECTIONS
from latcast.errors import MissingExtraError
from latcast.extras import PACKAGES, explained, require, unavailable
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import write_tflite
from latcast.spaces.catalogue import build, model

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

SMALL = (
    "annotated_doc", "click", "flatbuffers", "google", "markdown_it", "mdurl", "ml_dtypes", "numpy", "onnx", "pygments", "rich",
    "safetensors", "shellingham", "tflite", "tomli", "typer", "typing_extensions",
)  # fmt: skip
"""Modules of the core dependencies and of what they bring."""

NEWER_TYPER = ("annotated_types", "pydantic", "pydantic_core", "typing_inspection")
"""What Typer brings from 0.29 on, where an environment has that."""

HIDING = """
import sys

class Hidden:
    names = NAMES

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Hidden())
"""
"""Makes a fresh interpreter one into which latcast was installed without extras: NAMES are what else is installed here."""

PHONES = "pixel4/tflite-2.10/gpu/fp16,s10/tflite-2.10/2large/fp32"


def distribution(requirement: str) -> str:
    """``psycopg[binary]>=3.1`` as ``psycopg``."""
    return re.split(r"[\[<>=;! ]", requirement)[0]


@functools.cache
def hiding() -> str:
    # Not packages_distributions, which misses wheels without top_level.txt on Python 3.10.
    installed = {file.parts[0].partition(".")[0] for each in distributions() for file in each.files or ()}
    return HIDING.replace("NAMES", repr(installed - {*SMALL, *NEWER_TYPER, "latcast"}))


def run(statements: str, home: Path) -> subprocess.CompletedProcess[str]:
    """What a small install's Python makes of some statements."""
    return subprocess.run(
        [sys.executable, "-c", hiding() + statements], capture_output=True, text=True, check=False, cwd=home,
        env={"PATH": "", "LATCAST_HOME": str(home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip


def outcomes(home: Path, commands: Sequence[str]) -> list[tuple[int, str, str]]:
    """Codes, outputs and messages of commands, one after the other in one small install's Python."""
    found = run(
        "import io, json\nfrom contextlib import redirect_stderr, redirect_stdout\nfrom latcast.cli.main import run\nfound = []\n"
        f"for command in {[command.split() for command in commands]!r}:\n"
        "    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:\n        code = run(command)\n"
        "    found.append([code, out.getvalue(), err.getvalue()])\nprint(json.dumps(found))",
        home,
    )
    assert found.returncode == 0, found.stderr
    return [tuple(each) for each in json.loads(found.stdout)]


def latcast(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(f"from latcast.cli.main import run; sys.exit(run({list(arguments)!r}))", home)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A network as the files that a small install reads."""
    folder, graph = tmp_path_factory.mktemp("files"), build(model("squeezenet1_1", as_measured=True))
    found = {"onnx": folder / "own.onnx", "tflite": folder / "own.tflite"}
    found["onnx"].write_bytes(to_onnx(graph))
    found["tflite"].write_bytes(write_tflite(graph).data)
    return found


def test_the_core_is_what_predicting_needs() -> None:
    assert [distribution(each) for each in PROJECT["dependencies"]] == [
        "flatbuffers", "numpy", "onnx", "rich", "safetensors", "tflite", "tomli", "typer",
    ]  # fmt: skip


@pytest.mark.parametrize("module", [module for module, package in PACKAGES.items() if package.extra])
def test_an_extra_that_a_message_names_brings_the_package(module: str) -> None:
    package, extra, _ = PACKAGES[module]
    assert {package, f"{package}-cpu"} & {distribution(each) for each in EXTRAS[extra]}


def test_all_has_every_extra_that_fits_one_environment() -> None:
    [everything] = EXTRAS["all"]
    named = everything.removeprefix("latcast[").removesuffix("]").split(",")
    assert sorted([*named, "all", "dev", "docs", "tflite-runtime"]) == sorted(EXTRAS)


def test_a_small_install_predicts_files_and_named_networks(tmp_path: Path, files: dict[str, Path]) -> None:
    found = latcast(
        tmp_path, "predict", str(files["onnx"]), str(files["tflite"]), "resnet18", "--on", PHONES, "--breakdown", "--json"
    )

    assert found.returncode == 0, found.stderr
    predictions = json.loads(found.stdout)["predictions"]
    assert len(predictions) == 6
    assert all(each["latency_ms"] > 0 and each["kernels"] for each in predictions)


COMMANDS_WITHOUT_A_DEVICE = (
    "--help",
    *(f"{name} --help" for section in SECTIONS.values() for name in section),
    "compare resnet18 squeezenet1_1 --on pixel4/tflite-2.10/gpu/fp16",
    "data import benchmark few.csv --on pi4/tflite-2.17/cpu4/fp32 -o few.jsonl",
    "device suggest -n 3",
    "device add pi5 --unit cpu4 --runtime tflite --precision fp32 -o pi5",
    "device kit squeezenet1_1 -o kit",
    "doctor",
    "explain mobilenet_v3_large --on pixel4/tflite-2.10/gpu/fp16",
    "models mobile*",
    "platforms",
    "platforms show pixel4/tflite-2.10/gpu/fp16",
    "sweep resnet18 --on pixel4/tflite-2.10/gpu/fp16 --shape input=1,3,{192,224},=",
)


def test_a_small_install_does_what_needs_no_device(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("model,latency_ms\nmobilenet_v2,75\n")
    for command, (code, out, err) in zip(COMMANDS_WITHOUT_A_DEVICE, outcomes(tmp_path, COMMANDS_WITHOUT_A_DEVICE), strict=True):
        assert code == 0, (command, err)
        assert out, command


def test_a_small_install_predicts_from_python(tmp_path: Path) -> None:
    found = run(f"import latcast; print(latcast.predict('resnet18', on={PHONES.split(',')[0]!r}).latency_ms)", tmp_path)

    assert found.returncode == 0, found.stderr
    assert float(found.stdout) > 0


COMMANDS_WITH_AN_EXTRA = (
    ("demo", "local"),
    ("profile", "local"),
    ("measure resnet18 --runtime openvino", "openvino"),
    ("measure resnet18", "local"),
    ("device adapt", "local"),
    ("device fusion detect", "local"),
    ("train kept.sqlite", "local"),
    ("evaluate pixel4/tflite-2.10/gpu/fp16 kept.sqlite", "local"),
    ("data variants -o variants", "parquet"),
    ("data import usc .", "local"),
    ("data import benchmark few.csv", "local"),
    ("hub serve", "server"),
    ("hub backup hub.gz", "server"),
    ("hub restore hub.gz", "server"),
    ("hub undo --upload 3f2a", "server"),
    ("hub refit", "server"),
    ("hub token list", "server"),
    ("hub snapshot", "server"),
    ("worker tcp://127.0.0.1:9", "dask"),
    ("search ofa_mobilenet_v3 --on pixel4/tflite-2.10/gpu/fp16 --max-latency-ms 20 --plot x.png", "plots"),
    ("report resnet18 --on pixel4/tflite-2.10/gpu/fp16", "plots"),
    ("sweep resnet18 --on pixel4/tflite-2.10/gpu/fp16 --shape input={1,2},3,224,224 --plot x.png", "plots"),
    ("search ofa_mobilenet_v3 --on pixel4/tflite-2.10/gpu/fp16 --max-latency-ms 20", "search"),
    ("predict network.pt2 --trust --on pixel4/tflite-2.10/gpu/fp16", "torch"),
)


def test_work_that_needs_more_names_the_command_that_adds_it(tmp_path: Path) -> None:
    (tmp_path / "kept.sqlite").touch()
    (tmp_path / "network.pt2").touch()
    (tmp_path / "few.csv").touch()
    found = outcomes(tmp_path, [command for command, _ in COMMANDS_WITH_AN_EXTRA])

    for (command, extra), (code, out, err) in zip(COMMANDS_WITH_AN_EXTRA, found, strict=True):
        assert (code, out) == (1, ""), command
        assert f"pip install 'latcast[{extra}]'" in err, command
        assert len(err.splitlines()) == 1, command


def test_work_of_a_group_is_named_in_full(tmp_path: Path) -> None:
    found = latcast(tmp_path, "device", "adapt", "--runtime", "litert")

    assert found.stderr.startswith("latcast: latcast device adapt needs the package ")


def test_the_papers_need_what_measures_and_trains(tmp_path: Path) -> None:
    found = run("from papers.__main__ import main, run; sys.exit(run(['workgroups', '--data', '.'], main, 'papers'))", tmp_path)

    assert found.returncode == 1
    assert "pip install 'latcast[local]'" in found.stderr


def test_a_name_of_the_package_that_needs_more_says_so(tmp_path: Path) -> None:
    found = run("import latcast\ntry:\n    latcast.Store\nexcept latcast.LatcastError as problem:\n    print(problem)", tmp_path)

    assert found.stdout == (
        "latcast.Store needs the package 'SQLAlchemy', which is not installed; add it with: pip install 'latcast[local]'\n"
    )


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtraError, match=r"^reading x needs the package 'torch', .*pip install 'latcast\[torch\]'$"):
        require("reading x", "torch")
    assert "latcast[torch]" in (unavailable("building x", "torch") or "")
    assert unavailable("adding", "json") is None


def test_an_import_that_no_extra_mends_is_not_explained() -> None:
    assert explained(ModuleNotFoundError("No module named 'sqlalchemy.orm'", name="sqlalchemy.orm"), "x") is not None
    assert explained(ModuleNotFoundError("No module named 'nowhere'", name="nowhere"), "x") is None
