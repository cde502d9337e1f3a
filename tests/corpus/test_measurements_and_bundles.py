"""Every broken file of measurements, sweeps, tools' output and bundles is read or refused in one line, within 10 s and 2 GiB."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from latcast.records import Measurement, Reference
from tests.corpus.conftest import CORPUS, CORPUS_VARIABLE, corpus_files
from tests.corpus.limited_commands import run_limited

PLATFORM = "pixel4/tflite-2.10/gpu/fp16"
MEASURED = "local/onnxruntime-1.31/cpu1/fp32"

Commands = Callable[[Path, Path], Sequence[Sequence[str]]]


def of_measurements(file: Path, folder: Path) -> Sequence[Sequence[str]]:
    return [
        ["evaluate", PLATFORM, str(file)],
        ["train", str(file), "--learn-from", "networks", "-o", str(folder / "bundle")],
        ["share", str(file), "--to", "http://127.0.0.1:9", "--dry-run", "--device", "phone"],
    ]


def of_sweeps(file: Path, folder: Path) -> Sequence[Sequence[str]]:
    return [["workgroups", "replay", str(file), "--json"], ["workgroups", "replay", str(file), "--each"]]


def of_tools(file: Path, folder: Path) -> Sequence[Sequence[str]]:
    where = ["-o", str(folder / "x.jsonl")]
    runtime = {"0": "ncnn", "1": "onnxruntime"}.get(file.name[2:3], "tflite")
    return [
        ["data", "import", "benchmark", str(file), *where],
        ["data", "import", "benchmark", str(file), "--on", f"phone/{runtime}-1.0/cpu1/fp32", *where],
    ]


def of_bundles(file: Path, folder: Path) -> Sequence[Sequence[str]]:
    return [["predict", "resnet18", "--on", str(file)], ["evaluate", str(file), str(file)]]


def of_toml(file: Path, folder: Path) -> Sequence[Sequence[str]]:
    return [["check", "resnet18", "--budget", str(file)], ["workgroups", "advise", "conv:56x56x64,k3,s1,c64", "--on", str(file)]]


def of_tables(file: Path, folder: Path) -> Sequence[Sequence[str]]:
    return [["search", "ofa_mobilenet_v3", "--on", PLATFORM, "--max-latency-ms", "50", "--objective", str(file)]]


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}; set {CORPUS_VARIABLE}")
@pytest.mark.parametrize(
    ("patterns", "commands", "least"),
    [
        (("jsonl/*", "targeted/*.jsonl*"), of_measurements, 29),
        (("tuner/*", "targeted/c_*.json"), of_sweeps, 34),
        (("bench/*",), of_tools, 4),
        (("bundle/*", "attack/*.zip"), of_bundles, 3),
        (("attack/*.toml",), of_toml, 3),
        (("attack/e3*.csv",), of_tables, 1),
    ],
    ids=["measurements", "sweeps", "tools", "bundles", "toml", "tables"],
)
def test_every_file_of_the_corpus_is_read_or_refused(
    patterns: tuple[str, ...], commands: Commands, least: int, tmp_path: Path
) -> None:
    files = corpus_files(*patterns)
    assert len(files) >= least
    asked = [command for file in files for command in commands(file, tmp_path)]

    outcomes = run_limited(asked, tmp_path / "home")

    wrong = [(command, found) for command, found in zip(asked, outcomes, strict=True) if not found.is_read_or_refused()]
    assert wrong == []


def good_line() -> bytes:
    found = Measurement(MEASURED, Reference("resnet", {"depth": 18}), runs_ms=(1.0, 2.0), rounds=(0, 0), latency_ms=1.5)
    return json.dumps(found.to_json()).encode() + b"\n"


def bomb(path: Path, portion: bytes) -> Path:
    """A gzip of 3 GB of the same portion."""
    piece = gzip.compress(portion * (10_000_000 // len(portion)))
    path.write_bytes(piece * 300)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("portion", [b"\x00", b"\n", b"[", good_line()], ids=["zeros", "blank lines", "brackets", "records"])
def test_a_gzip_that_unpacks_to_3_gigabytes_is_refused(portion: bytes, tmp_path: Path) -> None:
    file = bomb(tmp_path / "bomb.jsonl.gz", portion)
    cache = tmp_path / "bomb.json.gz"
    cache.symlink_to(file)

    outcomes = run_limited([*of_measurements(file, tmp_path), *of_sweeps(cache, tmp_path)], tmp_path / "home")

    assert [(found.code, found.is_read_or_refused()) for found in outcomes] == [(1, True)] * 5, outcomes


def shipped_bundle(folder: Path) -> Path:
    """A copy of a shipped bundle, unpacked."""
    from latcast.predictors.bundle_index import SHIPPED_FOLDER

    source = next(file for file in sorted(SHIPPED_FOLDER.rglob("*.zip")) if "pixel4" in file.name)
    shutil.unpack_archive(source, folder / "bundle")
    return folder / "bundle"


def many_golden_kernels(bundle: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    kernels = golden["networks"][-1]["kernels"]
    golden["networks"][-1]["kernels"] = [[kind, row, 100_000] for kind, row, _ in kernels] * (2000 // len(kernels))
    (bundle / "golden.json").write_text(json.dumps(golden))


def many_tensors(bundle: Path) -> None:
    file = next(iter(sorted((bundle / "kernels").iterdir())))
    header = {f"regressor.t{index}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for index in range(300_000)}
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text)


def a_header_beyond_the_file(bundle: Path) -> None:
    file = next(iter(sorted((bundle / "kernels").iterdir())))
    file.write_bytes(np.uint64(2**63).tobytes() + b"{}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (many_golden_kernels, "kernels, expected at most 100000"),
        (many_tensors, "a header of"),
        (a_header_beyond_the_file, "a header of 9223372036854775808 bytes"),
    ],
)
def test_a_bundle_that_promises_too_much_is_refused(damage: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    bundle = shipped_bundle(tmp_path)
    damage(bundle)

    [found] = run_limited([["predict", "resnet18", "--on", str(bundle)]], tmp_path / "home")

    assert (found.code, found.is_read_or_refused()) == (1, True), found
    assert said in found.err
