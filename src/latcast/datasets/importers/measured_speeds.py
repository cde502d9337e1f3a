"""Speeds of language models that a user measured: llama-bench (JSON, JSON Lines, CSV, markdown), PocketPal, edge-llm-bench, CSV.

Every format becomes records of names to values. What a value is follows from its name without case and punctuation, which tools
spell differently: ``ppAvg``, ``pp_avg``, ``prefill_tps`` and ``prefill_tokens_per_s`` are one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from latcast.errors import DatasetError, ModelError
from latcast.llm.reading import read_language_model
from latcast.llm.speeds import SpeedMeasurement, merged
from latcast.reading import parse_json
from latcast.records import Platform, Unit

_SPELLINGS: Mapping[str, Sequence[str]] = {
    "model": ("modelfilename", "filename", "modelname", "modelid", "modeldesc", "model", "modeltype"),
    "quantisation": ("quantisation", "quantization", "quant", "variant"),
    "prompt": ("prompttokens", "pp", "nprompt", "contextlength", "inputtokens"),
    "generated": ("generatedtokens", "tg", "ngen", "outputtokens"),
    "prefill": ("prefilltokenspers", "ppavg", "prefilltps", "prefilltokspersec", "prefilltokps"),
    "threads": ("nthreads", "threads"),
    "decode": ("decodetokenspers", "tgavg", "decodetps", "decodetokspersec", "decodetokps"),
}
"""Spellings of a value's name in records, without separators; the first that is there counts."""


def read_measured_speeds(file: Path, platform: str, chip: str = "") -> tuple[list[SpeedMeasurement], list[str]]:
    """Return the measurements in a file, all as of one platform, and the names of models that are not known.

    Of a CPU those count that ran with as many threads as its platform has, or that do not say.

    Raises:
        DatasetError: The file cannot be read, or holds no speed of a language model, or none with so many threads.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise DatasetError(f"{file}: cannot be read: {problem}; expected speeds of language models") from problem
    found: list[SpeedMeasurement] = []
    unknown: list[str] = []
    seen, unit = False, Unit.parse(Platform.parse(platform).unit)
    others = set[int]()
    for record in _records(text, str(file)):
        values = _values(record)
        prefill, decode = _positive(values.get("prefill")), _positive(values.get("decode"))
        if prefill is None and decode is None:
            continue
        seen = True
        threads = _positive(values.get("threads"))
        if unit.kind == "cpu" and threads and threads != unit.threads:
            others.add(int(threads))
            continue
        name = str(values.get("model") or "")
        pair = _pair(name, str(values.get("quantisation") or ""), str(record.get("model_type") or ""))
        if pair is None:
            unknown.append(name or "a record without a model")
            continue
        prompt, generated = _positive(values.get("prompt")) or 0, _positive(values.get("generated")) or 64
        context = _positive(values.get("depth")) or 0
        context += generated / 2 + (prompt if prefill and decode else 0)
        found.append(
            SpeedMeasurement(
                *pair, platform, chip, int(prompt) if prefill and prompt else None, max(context, 16.0), prefill, decode,
                source=file.name,
            )
        )  # fmt: skip
    if not seen:
        raise DatasetError(
            f"{file}: found no speed of a language model; expected output of llama-bench (-o json, jsonl, csv or md), records of "
            "PocketPal or edge-llm-bench, or CSV with model,quantisation,prompt_tokens,prefill_tokens_per_s,decode_tokens_per_s"
        )
    if others and not found:
        ran = " and ".join(map(str, sorted(others)))
        do = f"name the unit as it was measured, cpu{min(others)}"
        raise DatasetError(f"{file}: found speeds with {ran} threads, expected {unit.threads} of cpu{unit.threads}; {do}")
    return merged(found), unknown


def holds_speeds(file: Path) -> bool:
    """Return whether a file looks like speeds of language models, by cells of its beginning."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            beginning = opened.read(4000).lower()
    except OSError:
        return False
    cells = {re.sub(r"[^a-z0-9/]", "", cell) for cell in re.split(r"[\n\t,;|:\"\[\]{}]", beginning)}
    return not cells.isdisjoint(("ngen", "ppavg", "t/s")) or any(
        cell.startswith(("prefilltps", "prefilltok", "decodetok", "decodetps")) for cell in cells
    )


def _records(text: str, name: str) -> Iterator[Mapping[str, Any]]:
    stripped = text.lstrip()
    if stripped.startswith(("[", "{")):
        try:
            yield from _objects(parse_json(text, name, error=DatasetError))
        except DatasetError:
            lines = [line for line in text.splitlines() if line.strip()]
            for line in lines:
                yield from _objects(parse_json(line, name, error=DatasetError))
    elif "|" in text and re.search(r"^\|.*t/s", text, re.MULTILINE):
        yield from _markdown(text)
    else:
        for row in csv.DictReader(text.splitlines()):
            yield from _objects(row)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a document that hold no others, each with what its owners say: one may name the model for many."""
    if isinstance(value, list):
        for each in value:
            yield from _objects(each)
    elif isinstance(value, dict):
        plain = {key: each for key, each in value.items() if not isinstance(each, dict | list)}
        inner = [one for each in value.values() if isinstance(each, dict | list) for one in _objects(each)]
        owned = [each for each in value.values() if isinstance(each, dict)]
        flat = {**{key: each for one in owned for key, each in one.items()}, **plain}
        speeds = [{**plain, **one} for one in inner if not {"prefill", "decode"}.isdisjoint(_values(one))]
        yield from speeds or [_of_llama_bench(flat)]


def _of_llama_bench(record: dict[str, Any]) -> dict[str, Any]:
    """Return a row of llama-bench, which is of one phase, with the name of its speed; others as they are."""
    if "avg_ts" not in record:
        return record
    prompt, generated = float(record.get("n_prompt") or 0), float(record.get("n_gen") or 0)
    phase = {(True, False): "prefill_tps", (False, True): "decode_tps"}.get((prompt > 0, generated > 0))
    return {**record, **({phase: record["avg_ts"]} if phase else {}), "depth": record.get("n_depth") or 0}


def _markdown(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of llama-bench's table: ``| model | size | ... | test | t/s |``, tests as in ``tg128 @ d1024``."""
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "t/s" in cells:
            header = cells
            continue
        row = dict(zip(header, cells, strict=False))
        test = re.fullmatch(r"(pp|tg) ?(\d+)(?: @ d(\d+))?", row.get("test", ""))
        if test:
            phase, count = ("prefill_tps", "n_prompt") if test[1] == "pp" else ("decode_tps", "n_gen")
            speed = row["t/s"].split("±")[0].strip()
            yield {"model": row["model"], "model_type": row["model"], phase: speed, count: test[2], "depth": test[3] or 0,
                   "threads": row.get("threads")}  # fmt: skip


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    joined = {re.sub(r"[^a-z0-9]", "", str(key).lower()): value for key, value in record.items()}
    found = {
        what: next(joined[name] for name in names if joined.get(name) not in (None, ""))
        for what, names in _SPELLINGS.items()
        if any(joined.get(name) not in (None, "") for name in names)
    }
    return {**found, "depth": joined.get("depth")}


def _positive(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < 1e7 else None


def _pair(name: str, quantisation: str, described: str) -> tuple[str, str] | None:
    """Return the known model and the recipe that a record names; None where it does not, or either is unknown."""
    stem, described = (re.sub(r"(_K) - (\w)\w+", r"\1_\2", text) for text in (re.split(r"[/\\]", name)[-1], described))
    for text, recipe in ((stem, quantisation), (stem, ""), (f"{stem} {described}", "")):
        try:
            model = read_language_model(text, recipe)
        except ModelError:
            continue
        if model.quantisation:
            return model.name, model.quantisation
    return None
