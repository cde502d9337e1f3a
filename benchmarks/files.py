"""Judges the readers on a folder of model files against the runtimes: refusals, shapes and multiply-accumulates.

Each file is read and predicted here, then run by ONNX Runtime or LiteRT in a process of its own, with a time limit
(:mod:`benchmarks.running_files`), on random inputs or on those of a ``.npz`` beside it. A file is wrong where an output of the
runtime has another shape than in the graph, or where the runtime's own shapes give other multiply-accumulates.
"""

from __future__ import annotations

import re
import shlex
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import AsJson, say
from benchmarks.judge import Row, table
from benchmarks.result_files import keep, kept_parts
from benchmarks.running_files import Asked, inputs_beside, serve
from latcast.cli.output import print_json
from latcast.errors import DynamicShapeError, LatcastError, ModelError
from latcast.graph.importers import MODEL_SUFFIXES
from latcast.graph.input_values import parse_values
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.measure.single import measure
from latcast.networks import ModelOptions, parse_shapes, read_model
from latcast.platforms import load
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.tables import signed

RUNS_WITHIN_S = 30.0
"""Seconds that a runtime may take for one file; node tests take milliseconds, a kit's largest network two seconds."""

SAY_EVERY = 200
"""Files."""

MOST_PASTES = 8
"""Suggestions of refusals that are followed for one file: people give up earlier."""

NODE_TESTS = "onnx-node-tests"
"""Folder that is filled with onnx's own tests of operators."""


def files(
    folder: Annotated[Path, typer.Argument(help=f"Folder of model files; one named {NODE_TESTS} is filled if there is none.")],
    on: Annotated[str, typer.Option(help="Platform whose coverage is shown.")] = "s10/tflite-2.10/2large/fp32",
    timed: Annotated[
        bool, typer.Option("--measure", help="Also time the files here, under the platform's runtime, beside what is predicted.")
    ] = False,
    name: Annotated[str, typer.Option("--keep", help="Keep the counts as a part of the results, under this name.")] = "",
    as_json: AsJson = False,
) -> None:
    """Count which model files of a folder are read as the runtimes run them, and say what is refused or wrong."""
    if folder.name == NODE_TESTS and not folder.is_dir():
        write_node_tests(folder)
    rows = judge_files(model_files(folder), load(on), timed=timed)
    if name:
        keep(f"files/{name}", summary(rows))
    if as_json:
        print_json({"summary": summary(rows), "refused": refusals(rows), "files": rows})
        return
    print(files_table({folder.name: summary(rows)}))
    for reason in refusals(rows):
        print("refused {files} ({run} of them run): {example}: {message}".format_map(reason))
    for row in rows:
        for text in row["wrong"]:
            print(f"wrong {row['file']}: {text}")
    if timed:
        print(timed_table(rows))


def model_files(folder: Path) -> list[Path]:
    """Return the files of a folder and those below it that latcast has an importer for, without .pt2, which may run code."""
    return [path for path in sorted(folder.rglob("*")) if path.suffix in MODEL_SUFFIXES and path.suffix != ".pt2"]


def write_node_tests(folder: Path) -> None:
    """Write the models of onnx's tests of operators with the inputs of their first data sets; what decides shapes is constant."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        model, values = case.model, case.data_sets[0][0]
        given = dict(zip((value.name for value in model.graph.input), values, strict=False))
        for name in _deciding(given):
            model.graph.initializer.append(onnx.numpy_helper.from_array(given.pop(name), name))
        kept = [value for value in model.graph.input if value.name in given]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        (folder / f"{case.name}.onnx").write_bytes(model.SerializeToString())
        if not any(isinstance(each, list) for each in given.values()):
            arrays = {name: np.asarray(each) for name, each in given.items()}
            if all(each.dtype.isbuiltin == 1 and each.dtype != object for each in arrays.values()):
                np.savez(folder / f"{case.name}.npz", **arrays)


def _deciding(given: Mapping[str, Any]) -> list[str]:
    """Return the inputs of a test that files have as constants: axes, sizes, scales; never all of them."""
    found = [
        name
        for name, value in given.items()
        if isinstance(value, np.ndarray) and value.ndim <= 1 and (value.dtype == np.int64 or name in ("scales", "sizes"))
    ]
    return found if len(found) < len(given) else []


# Judging


def judge_files(paths: Sequence[Path], predictor: PlatformPredictor, *, timed: bool = False) -> list[dict[str, Any]]:
    """Return what is found of each file: read or refused, run or not, what is wrong; perhaps what it takes here."""
    rows = []
    with RunningFiles() as running:
        for path in paths:
            rows.append(_judge_file(path, predictor, running))
            if timed and "latency_ms" in rows[-1] and rows[-1]["runs"]:
                found = measure(path, predictor.platform.runtime, **rows[-1].pop("given"))
                rows[-1]["measured_ms"] = found.latency_ms if found.ok else None
            rows[-1].pop("given", None)
            if len(rows) % SAY_EVERY == 0:
                say(f"{len(rows)} of {len(paths)} files")
    return rows


def _judge_file(path: Path, predictor: PlatformPredictor, running: RunningFiles) -> dict[str, Any]:
    start = time.perf_counter()
    row: dict[str, Any] = {"file": path.name, "format": path.suffix[1:], "refusal": None, "sizes": None, "wrong": []}
    graph: Graph | None = None
    given = ModelOptions()
    assumed = False
    try:
        graph, given, row["sizes"] = _read_as_suggested(path)
        found = predictor.predict(graph, breakdown=False)
        assumed = "assumed" in " ".join(found.warnings)
        outputs = {name: list(graph.shape(name)) for name in graph.outputs}
        row |= {"macs": graph_macs(graph), "coverage": found.coverage.share, "outputs": outputs}
        row |= {name: getattr(found, name) for name in ("latency_ms", "low_ms", "high_ms")}
        row["given"] = {"shapes": given.shapes, "values": given.values}
    except LatcastError as problem:
        row["refusal"] = str(problem).removeprefix(f"{path}: ")
    row["seconds"] = time.perf_counter() - start
    sizes = given.shapes or {}
    if graph is not None and path.suffix == ".param":  # which does not always say what its inputs are
        sizes = {name: graph.shape(name) for name in graph.inputs}
    ran = running.run(Asked(str(path), sizes, given.values or {}))
    row |= {"runs": ran.get("outputs") is not None, "why_not_run": ran.get("error")}
    # Which sizes a value decides that the network computes, only its weights know.
    if row["refusal"] is None and row["runs"] and graph is not None and set(given.values or ()) <= set(graph.inputs):
        row["wrong"] = list(differences(row, ran, assumed=assumed))
    return row


def _read_as_suggested(path: Path) -> tuple[Graph, ModelOptions, str | None]:
    """Read a file as it is, else with the sizes and values that refusals ask for: those of the inputs beside it, or as suggested.

    Returns:
        The graph, what it was read with, and the options that were suggested.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    values: dict[str, Any] = {}
    pasted: list[str] = []
    beside = inputs_beside(path)
    for _ in range(MOST_PASTES):
        given = ModelOptions(shapes or None, values=values or None)
        try:
            return read_model(path, given), given, shlex.join(pasted) or None
        except ModelError as problem:
            options = suggested_options(str(problem))
            asked = [text for name, text in zip(options[::2], options[1::2], strict=True) if name == "--value"]
            if isinstance(problem, DynamicShapeError) and beside and not shapes:
                shapes = {name: value.shape for name, value in beside.items()}
            elif not options or set(options) <= set(pasted):
                raise
            else:
                pasted += options
                shapes |= parse_shapes([text for text in options[1::2] if text not in asked])
                values |= {name: beside.get(name, value) for name, value in parse_values(asked).items()}
    raise ModelError(f"{path}: refused after {MOST_PASTES} suggestions: {shlex.join(pasted)}")


def suggested_options(message: str) -> list[str]:
    """Return the ``--shape`` and ``--value`` options that a message asks for, as a shell takes them."""
    found = re.search("--(shape|value) .*", message, re.DOTALL)
    words = shlex.shlex(found[0] if found else "", posix=True, punctuation_chars=True)
    words.whitespace_split = True
    options = []
    for word in words:
        if word not in ("--shape", "--value"):
            break
        options += [word, next(words)]
    return options


def differences(row: Row, ran: Row, *, assumed: bool) -> Iterator[str]:
    """Say where a runtime's shapes and multiply-accumulates differ from the graph's.

    Args:
        row: With ``format``, ``outputs``, names to shapes, and ``macs``.
        ran: With ``outputs``, names to shapes, and ``macs``, None where they are not counted.
        assumed: Whether the graph has the most that a size can be.
    """
    for name, mine in row["outputs"].items():
        other = ran["outputs"].get(name, mine)
        if row["format"] != "onnx":  # in whose other formats the order of dimensions, or those of size 1, are not the graph's
            mine, other = (sorted(size for size in each if size != 1) for each in (mine, other))
        is_at_most = assumed and len(mine) == len(other) and all(a >= b for a, b in zip(mine, other, strict=True))
        if mine != other and not is_at_most:
            yield f"output '{name}' has the shape {mine} in the graph, {other} in the runtime"
    if ran["macs"] is not None and ran["macs"] != row["macs"] and not assumed:
        yield f"{row['macs']:,} multiply-accumulates in the graph, {ran['macs']:,} by the shapes of the runtime"


class RunningFiles:
    """A process in which runtimes run files; it is replaced where one takes too long or ends it."""

    def __init__(self, within_s: float = RUNS_WITHIN_S) -> None:
        self._within_s = within_s
        self._context = get_context("spawn")

    def __enter__(self) -> RunningFiles:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, asked: Asked) -> dict[str, Any]:
        """Return what :func:`benchmarks.running_files.run_file` finds, or an ``error``."""
        self._pipe.send(asked)
        problem = f"it takes more than {self._within_s:g} s"
        try:
            if self._pipe.poll(self._within_s):
                found: dict[str, Any] = self._pipe.recv()
                return found
        except EOFError:
            problem = "the runtime ended its process"
        self._stop()
        self._start()
        return {"error": problem}

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def _stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


# What is shown


def refusals(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the reasons of refusals, the most frequent first, each with how many of its files run and one example."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        if row["refusal"]:
            grouped.setdefault(re.sub(r"'[^']*'|\d+(, \d+)*", "…", row["refusal"]), []).append(row)
    found = sorted(grouped.values(), key=lambda each: (-sum(row["runs"] for row in each), -len(each)))
    return [
        {
            "files": len(each), "run": sum(row["runs"] for row in each), "example": each[0]["file"],
            "message": each[0]["refusal"],
        }
        for each in found
    ]  # fmt: skip


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the counts of a folder."""
    read = [row for row in rows if not row["refusal"]]
    counts = Counter(
        name
        for row in rows
        for name, is_so in {
            "read": not row["refusal"], "run": row["runs"], "refused_run": row["refusal"] and row["runs"],
            "compared": not row["refusal"] and row["runs"], "wrong": bool(row["wrong"]), "sizes_suggested": row["sizes"],
        }.items()
        if is_so
    )  # fmt: skip
    names = ("read", "run", "refused_run", "compared", "wrong", "sizes_suggested")
    return {
        "files": len(rows), **{name: counts[name] for name in names},
        "covered": 100 * float(np.mean([row["coverage"] for row in read])) if read else None,
        "seconds": sum(row["seconds"] for row in rows),
    }  # fmt: skip


def timed_table(rows: Sequence[Row]) -> str:
    """Return a line for each file that was timed, and a sentence with the median error and how many intervals hold the truth."""
    found = [
        {**row, "error": 100 * (row["latency_ms"] / row["measured_ms"] - 1),
         "inside": row["low_ms"] <= row["measured_ms"] <= row["high_ms"]}
        for row in rows if row.get("measured_ms")
    ]  # fmt: skip
    columns = {
        "file": "{file}", "sizes": lambda row: row["sizes"] or "", "predicted ms": "{latency_ms:.3g}", "low": "{low_ms:.3g}",
        "high": "{high_ms:.3g}", "measured ms": "{measured_ms:.3g}", "error %": lambda row: signed(row["error"], 0),
        "in the interval": lambda row: "yes" if row["inside"] else "no",
    }  # fmt: skip
    middle = float(np.median([abs(row["error"]) for row in found])) if found else float("nan")
    held = sum(row["inside"] for row in found)
    return f"{table(found, columns)}\n\nMedian error {middle:.1f} %; {held} of {len(found)} in the 90 % interval."


def files_table(parts: Mapping[str, Row] | None = None) -> str:
    """Return the counts of folders; those that are kept by default."""
    rows = [{"name": name, **found} for name, found in (kept_parts("files") if parts is None else parts).items()]
    return table(
        rows,
        {
            "files": "{name}", "how many": "{files}", "run by their runtime": "{run}", "read": "{read}",
            "refused though they run": "{refused_run}", "compared": "{compared}", "wrong": "{wrong}",
        },
    )  # fmt: skip
