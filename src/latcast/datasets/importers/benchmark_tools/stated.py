"""Readers of latencies as people write them down: tables and JSON."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from latcast.errors import DatasetError
from latcast.reading import parse_json
from latcast.runtimes.benchmark_tools.output import Line, Section, Timing, positive, read_all
from latcast.spaces.model_names import PRECISIONS, split_precision

HEADER = ("model", "latency_ms")
"""``model`` is a file, or the name of a network."""

_NETWORK = frozenset((
    "arch", "architecture", "backbone", "file", "model", "modelfile", "modelname", "name", "net", "network", "networkname",
))  # fmt: skip
_PRECISION, _BATCH = frozenset(("dtype", "precision", "quantisation", "quantization")), frozenset(("batch", "batchsize"))
_IMAGE = frozenset((
    "image", "imagesize", "imgsize", "imgsz", "input", "inputresolution", "inputshape", "inputsize", "resolution",
    "weightsorinput",
))  # fmt: skip
_CONDITIONS = frozenset((
    "accelerator", "backend", "board", "chip", "computeunit", "delegate", "device", "framework", "hardware", "numthreads",
    "phone", "platform", "processor", "runtime", "soc", "target", "threads", "unit",
))  # fmt: skip
"""Letters of headings; columns of conditions hold one value in all rows."""

_UNITS: Mapping[str, float] = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), 1.0), **dict.fromkeys(("s", "sec", "seconds"), 1e3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microseconds"), 1e-3),
}  # fmt: skip
"""Milliseconds in each unit."""

_RATES = frozenset(("fps", "ips", "qps", "throughput"))
_LATENCIES = frozenset(("duration", "elapsed", "exec", "execution", "infer", "lat", "latency", "time"))
_PER_SECOND = re.compile(r"(?:frame|image|img|inference|infer|sample)s? ?(?:/|per) ?s(?:ec(?:ond)?)?s?\b")
_STATISTICS: Mapping[str, int] = {"median": 1, "p50": 1, "mean": 2, "average": 2, "avg": 2}
"""Which of several columns counts: a latency without a statistic, then the median, then the mean, last a rate."""

_BESIDE = frozenset((
    "1", "frame", "frames", "image", "images", "img", "in", "inference", "inferences", "per", "run", "second",
))  # fmt: skip
"""Words that change nothing in the heading of a latency or rate."""

_VALUE = re.compile(r"(?P<number>\S+?)(?: *(?:±|\+/?-) *[\d.,]+)? *(?P<unit>[a-zµμ]+)?")


class _Columns(NamedTuple):
    """Headings of what is read, empty where there is none, and the milliseconds in a latency's unit: None for a rate."""

    network: str
    latency: str
    unit_ms: float | None
    precision: str
    batch: str
    image: str


def _columns(headings: Sequence[str]) -> _Columns | None:
    """Return where a table has its networks and latencies; None where it does not have both."""
    latencies = {each: found for each in headings if (found := _latency_column(each)) is not None}
    network, precision, batch, image = (
        next((each for each in headings if _letters(each) in named), "") for named in (_NETWORK, _PRECISION, _BATCH, _IMAGE)
    )
    if not network or not latencies:
        return None
    latency = min(latencies, key=lambda each: latencies[each][0])
    return _Columns(network, latency, latencies[latency][1], precision, batch, image)


def _letters(heading: str) -> str:
    return re.sub(r'[\s_*"-]', "", heading.lower())


def _latency_column(heading: str) -> tuple[int, float | None] | None:
    """Return the rank of a column of latencies and the milliseconds in its unit, None for a rate; None for another column."""
    text = heading.lower().replace("_", " ")
    if _PER_SECOND.search(text):
        return 3, None
    words = set(re.findall(r"[a-zµμ]+\d*|\d+", text)) - _BESIDE
    statistics, units = words & _STATISTICS.keys(), words & _UNITS.keys()
    words -= statistics | units | ({"runtime"} if units else set())
    if words and words <= _RATES:
        return 3, None
    if words - _LATENCIES or len(units) > 1 or not (words or units):
        return None
    return max((_STATISTICS[each] for each in statistics), default=0), _UNITS[units.pop()] if units else 1.0


class TableReader:
    """Reads a table: columns in any order, others beside them, with commas, semicolons, tabs or Markdown's bars between.

    It says neither where nor how often the networks ran.
    """

    name = f"a table with the header {','.join(HEADER)}"
    runtimes: Sequence[str] = ()
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        between = _separator(text)
        return between in text and _columns(text.split(between)) is not None

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        first, heading = next((place, line) for place, line in enumerate(section.lines) if self.begins(line.text))
        between = _separator(heading.text)
        headings = _cells(section, heading, between)

        def row(line: Line) -> Mapping[str, str]:
            cells = _cells(section, line, between)
            if not any(each.strip(":-") for each in cells):  # an empty row of a spreadsheet, or Markdown's rule
                return {}
            if not 1 < len(cells) <= len(headings):
                raise section.refused(f"found {len(cells)} cells; expected {len(headings)}, as the header has", line)
            return dict(zip(headings, cells, strict=False))

        lines = [line for line in section.lines[first + 1 :] if line.text.strip() and not line.text.startswith("#")]
        return _timings(section, headings, [(line, line) for line in lines if between != "|" or between in line.text], row)


class JsonReader:
    """Reads objects of a network and its latency, one a line or in a list, or one object of latencies by network.

    It says neither where nor how often the networks ran.
    """

    name = 'JSON of {"model": ..., "latency_ms": ...}'
    runtimes: Sequence[str] = ()
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        if re.fullmatch(r"[\[{]\s*|\[\s*\{.*", text):
            return True
        try:
            found = parse_json(text, "a line", error=DatasetError) if text.lstrip().startswith("{") else []
            return _columns([*_objects(found)[0]]) is not None
        except DatasetError:
            return False

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        parts = [(line, line.text) for line in section.lines if line.text.strip()]
        if parts[0][1][:1] == "[" or parts[0][1].strip() == "{":
            parts = [(parts[0][0], "\n".join(text for _, text in parts))]

        def rows(part: tuple[Line, str]) -> list[tuple[Line, Mapping[str, str]]]:
            try:
                return [(part[0], each) for each in _objects(parse_json(part[1], "its text", error=DatasetError))]
            except DatasetError as problem:
                raise section.refused(str(problem), part[0]) from problem

        found = [each for listed in read_all([(part[0], part) for part in parts], rows) for each in listed]
        return _timings(section, [*found[0][1]], found, lambda row: row)


AS_STATED = "as stated"
"""Statistic of latencies whose source says nothing of them but milliseconds."""


def _objects(found: Any) -> list[Mapping[str, str]]:
    """Return a JSON document's rows, texts by heading, or raise a DatasetError where it has none."""
    given = found
    if isinstance(found, dict) and _columns([*found]) is None:
        if found and all(isinstance(each, int | float) for each in found.values()):
            found = [dict(zip(HEADER, each, strict=True)) for each in found.items()]
        else:
            found = next((each for each in found.values() if isinstance(each, list)), None)
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise DatasetError(f"found {str(given)[:60]}; expected objects of model and latency_ms")
    return [{key: "" if value is None else str(value) for key, value in each.items()} for each in found]


_SHAPE = re.compile(r"(?:1 ?[x×,*] ?)?(?:3 ?[x×,*] ?)?(\d{2,5})(?: ?[x×,*] ?(\d{2,5}))?(?: ?[x×,*] ?3)?(?: ?(?:px|pixels))?")
"""Sides of an image of three channels, channels first or last."""


def _sides(text: str) -> tuple[int, int] | None:
    """Return the height and width of an image; None where a text says another thing."""
    found = _SHAPE.fullmatch(text.strip("()[] ").lower())
    return (int(found[1]), int(found[2] or found[1])) if found else None


_Row = TypeVar("_Row")


def _timings(
    section: Section, headings: Sequence[str], rows: Sequence[tuple[Line, _Row]], read: Callable[[_Row], Mapping[str, str]]
) -> list[Timing]:
    columns = _columns(headings)
    if columns is None:
        raise section.refused(f"found {', '.join(headings)}; expected {' and '.join(HEADER)}", section.lines[0])
    for name in columns[:2]:
        if headings.count(name) > 1:
            raise section.refused(f"found two columns '{name}'; expected one: runs of a network in rows", section.lines[0])
    said: dict[str, str] = {}

    def timing(part: tuple[Line, _Row]) -> Timing | None:
        line, row = part[0], read(part[1])
        if not any(row.values()):
            return None
        network, text, precision, batch, image = (
            row.get(name, "").strip("*` ") if name else "" for name in (*columns[:2], *columns[3:])
        )
        if not network or not text:
            what = f"latency of {network}" if network else "network"
            raise section.refused(f"found no {what}; expected a model and its latency in each row", line)
        for name in (each for each in headings if _letters(each) in _CONDITIONS):
            if row.get(name, "") != said.setdefault(name, row.get(name, "")):
                found = f"found {name} '{row.get(name, '')}' after '{said[name]}'"
                raise section.refused(f"{found}; expected one in a file: keep the rows of the device that is added", line)
        precision = precision or split_precision(network)[1]
        if precision and precision.lower() not in PRECISIONS:
            known = ", ".join(dict.fromkeys(PRECISIONS.values()))
            raise section.refused(f"the precision is '{precision}'; expected {known}", line)
        if not re.fullmatch(r"|[1-9]\d{0,6}", batch):
            raise section.refused(f"the batch is {batch}; expected a number of images", line)
        value = _VALUE.fullmatch(text.lower())
        unit = value["unit"] if value else None
        if value is None or (unit and unit not in (*_UNITS, *_RATES)):
            raise section.refused(f"the latency is {text}; expected a number, of ms, us, s or fps", line)
        if "," in value["number"]:
            raise section.refused(f"the latency is {text}; expected a point before decimals and nothing between thousands", line)
        unit_ms = _UNITS.get(unit) if unit else columns.unit_ms
        number = positive(section, line, "the latency", value["number"], scale=unit_ms or 1.0)
        how = AS_STATED if unit_ms == 1 else f"{AS_STATED}, converted"
        latency_ms, precise = number if unit_ms else 1e3 / number, PRECISIONS.get(precision.lower())
        images = int(batch) if batch else None
        return Timing(network, line, latency_ms, how, precision=precise, image=_sides(image), batch=images, each=not unit_ms)

    found = [each for each in read_all([(row[0], row) for row in rows], timing) if each is not None]
    if not found:
        raise section.refused("no model follows the header; expected a line for each: model,latency_ms")
    # Beside rows that say their precision, one that does not is of real numbers.
    usual = "fp32" if any(each.precision for each in found) else None
    return [replace(each, precision=each.precision or usual) for each in found]


def _separator(heading: str) -> str:
    return next((each for each in "|;\t" if each in heading), ",")


def _cells(section: Section, line: Line, between: str) -> list[str]:
    text = line.text.strip().removeprefix("|").removesuffix("|") if between == "|" else line.text
    try:
        cells = [cell.strip() for cell in next(csv.reader([text], delimiter=between), [])]
    except csv.Error as problem:
        raise section.refused(f"not a row of a table ({problem})", line) from problem
    return [re.sub(r"^(\d+),(\d+)$", r"\1.\2", cell) for cell in cells] if between in ";\t" else cells
