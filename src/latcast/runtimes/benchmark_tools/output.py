"""The shared parts of the readers of stock tools' output: numbered lines in, timings out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol, TypeVar

from latcast.errors import DatasetError, abridged
from latcast.records import LEAST_MS, MOST_MS

MOST_LISTED = 40
"""Spans of lines that an error lists."""

MOST_REFUSED = 500
"""Refused lines after which reading stops: finding the nearest names of an unknown one takes milliseconds."""


@dataclass(frozen=True)
class Line:
    """A line with its number in the file."""

    number: int
    text: str


_COLOUR = re.compile(r"(?:\x1b|\^\[)\[[0-9;]*[A-Za-z]")
"""A code for the terminal, as it is or as it is shown."""

_STAMP = re.compile(
    r"(?:[^\t]*\t[^\t]*\t\ufeff?)?"  # job and step, by gh run view --log
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)(?: \d\d[OE]\+?)?(?: |$)"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:\S+ [^\s:\[\]]+(?:\[\d+\])?: )?"
    r"|[\w.-]+ *\| "
)
"""Time and source: GitHub Actions, GitLab, ``docker logs -t``, syslog, ``ts`` and ``docker compose`` print them before lines."""

_TIME = r"(?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}(?: [+-]\d{4})?| *\d+\.\d{3,9})"
_OWNER = r"(?:[\w.]+ *: *)?"

_LOGCAT = re.compile(
    rf"{_TIME} +{_OWNER}(?P<threadtime>\d+) +\d+ [VDIWEFAS] (?:[^:]|:(?! ))*?\s*:(?: |$)"
    rf"|(?:{_TIME} +)?[VDIWEFAS]/[^:()]*?\s*\( *{_OWNER}(?P<brief>\d+)\):(?: |$)"
    r"|[VDIWEFAS]/(?P<tag>[^:()]+?)\s*:(?: |$)"
    rf"|[VDIWEFAS]\( *{_OWNER}(?P<process>\d+)(?:: *\d+)?\) ?"
    rf"|{_TIME} +(?P<old>\d+)-\d+/\S+ [VDIWEFAS]/[^:]*?\s*:(?: |$)"
    rf"|{_TIME} +(?P<studio>\d+)-\d+ +\S+ +\S+ +[VDIWEFAS](?:  |$)"
    r"|[VDIWEF]\d{4} \d\d:\d\d:[\d.]+ +(?P<glog>\d+) [\w./+-]+:\d+\] ?"
)
"""Prefixes of Android's logcat (its formats threadtime, time, brief, tag, process and thread), of Android Studio (old and new)
and of glog; the named groups are the process that wrote the message, or the tag where the format has no process."""

_LOGCAT_LONG = re.compile(rf"\[ {_TIME} +{_OWNER}(?P<long>\d+): *\d+ [VDIWEFAS]/.*\]")
"""logcat's format long, in which this line stands before the message and an empty one after it."""

_LOGCAT_BUFFER = re.compile(r"-{5,} (?:beginning of|switch to) \S.*")
_PROCESS_SUFFIX = re.compile(r"  \([^()]*\)$")
_LEVEL = "INFO: "


def lines_of(text: str) -> tuple[Line, ...]:
    """Return the lines that a tool printed, without what adb, logcat, glog and build servers put before them.

    Messages of other processes, which a log has between, come after those of the process that wrote first.
    """
    parts = text.split("\n")
    # After the last line's end there is no further, empty line: whether a table ended with one must stay visible.
    parts = parts if parts[-1] else parts[:-1]
    found: list[tuple[str, Line]] = []
    longer = ""
    for number, part in enumerate(parts, start=1):
        # Shells on Android end lines with one return or two; progress bars begin with them.
        bare = _COLOUR.sub("", part.rstrip("\r").rpartition("\r")[2])
        if stamp := _STAMP.match(bare):
            bare = bare[stamp.end() :]
        if _LOGCAT_BUFFER.fullmatch(bare):
            continue
        if header := _LOGCAT_LONG.fullmatch(bare.rstrip()):
            if longer and found and not found[-1][1].text:
                found.pop()
            longer = header["long"]
            continue
        source = longer
        if prefix := _LOGCAT.match(bare):
            source = prefix[prefix.lastgroup or 0]
            bare = bare[prefix.end() :]
            bare = _PROCESS_SUFFIX.sub("", bare) if prefix["process"] else bare
        found.append((source, Line(number, bare.removeprefix(_LEVEL))))
    return tuple(line for _, line in _by_source(found))


def _by_source(lines: Sequence[tuple[str, Line]]) -> Iterator[tuple[str, Line]]:
    """Yield the lines of a log by the process that wrote them; lines of no process stay between."""
    for logged, group in groupby(lines, lambda each: bool(each[0])):
        part = list(group)
        order = list(dict.fromkeys(source for source, _ in part))
        yield from sorted(part, key=lambda each: order.index(each[0])) if logged else part


@dataclass(frozen=True)
class Section:
    """The output of one run of a tool.

    Attributes:
        lines: From the tool's first line on; at least one.
        header: The kit script's description of the run: network, device, threads...
    """

    file: Path
    lines: tuple[Line, ...]
    header: Mapping[str, str] = field(default_factory=dict)

    def refused(self, reason: str, line: Line | None = None) -> DatasetError:
        """Return the error for output that cannot be used, by default at the last line."""
        return DatasetError(f"{self.file}:{(line or self.lines[-1]).number}: {reason}")


_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


_Part = TypeVar("_Part")
_Read = TypeVar("_Read")


def read_all(parts: Iterable[tuple[Line, _Part]], read: Callable[[_Part], _Read]) -> list[_Read]:
    """Return ``read(part)`` of each part, which stands in a line.

    Raises:
        DatasetError: ``read`` refused a part: its message, and the numbers of other refused lines.
    """
    found: list[_Read] = []
    problems: list[DatasetError] = []
    numbers: list[int] = []
    for line, part in parts:
        try:
            found.append(read(part))
        except DatasetError as problem:
            problems.append(problem)
            numbers.append(line.number)
            if len(problems) == MOST_REFUSED:
                break
    if len(problems) > 1:
        more = len(problems) - 1
        runs = groupby(enumerate(dict.fromkeys(numbers[1:])), lambda each: each[1] - each[0])
        spans = [f"{run[0][1]}-{run[-1][1]}" if len(run) > 1 else str(run[0][1]) for run in (list(group) for _, group in runs)]
        least = "at least " if len(problems) >= MOST_REFUSED else ""
        raise DatasetError(f"{problems[0]}; {least}{more} more refused: line{'s' * (more > 1)} {abridged(spans, MOST_LISTED)}")
    if problems:
        raise problems[0]
    return found


@dataclass(frozen=True)
class ProfiledOperator:
    """A line of a profile.

    Attributes:
        kind: The operator's or kernel's type.
        name: The tool's name for it, without the index.
        index: Index of the operator in the file, or of the kernel in its part of the network; -1 where the line has none.
        latency_ms: Time of all calls in one inference.
        calls: Number of calls in one inference.
    """

    kind: str
    name: str
    index: int
    latency_ms: float
    calls: int = 1


@dataclass(frozen=True)
class Timing:
    """A tool's result for one network; None where the tool does not report a fact.

    Attributes:
        network: The tool's name for the network, mostly a path.
        line: Line of the latency.
        latency_ms: The tool's best figure for a typical run.
        statistic: Name of that figure.
        runs, warmup_runs: Numbers of timed runs (0 where unknown) and of untimed runs before them.
        figures_ms: The other figures by name: "min", "max", "mean"...
        threads: Threads of the CPU.
        cores: Qualifier of the unit where they ran on some of the cores only: ``+big``.
        gpu: Whether it ran on a GPU.
        precision, version: Precision of the computation, version of the runtime.
        image: Height and width of the network's image.
        batch: Images that it took at once.
        each: Whether the latency is that of each image of a batch, from a rate.
        profile: Lines of operators, where it profiled them.
    """

    network: str | None
    line: Line
    latency_ms: float
    statistic: str
    runs: int = 0
    warmup_runs: int = 0
    figures_ms: Mapping[str, float] = field(default_factory=dict)
    threads: int | None = None
    cores: str = ""
    gpu: bool | None = None
    precision: str | None = None
    version: str | None = None
    image: tuple[int, int] | None = None
    batch: int | None = None
    each: bool = False
    profile: tuple[ProfiledOperator, ...] = ()


class ToolReader(Protocol):
    """A reader of one tool's output."""

    name: str
    """The tool's."""

    runtimes: Sequence[str]
    """Names of the runtime in platform ids, the default first; empty where any fits."""

    endings: Sequence[str]
    """Suffixes of the model files that it runs."""

    def begins(self, text: str) -> bool:
        """Return whether a line can only be the first one of this tool's output."""

    def read(self, section: Section) -> list[Timing]:
        """Return the timings of one run of the tool.

        Raises:
            DatasetError: The output is cut off or malformed; the message gives file and line.
        """


def network_name(path: str, *, endings: Sequence[str] = (".tflite", ".onnx", ".param", ".ncnn", ".xml")) -> str:
    """Return the file's name without folder and model endings: ``/data/local/tmp/a.tflite`` is ``a``."""
    plain = PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name
    for ending in endings:
        plain = plain.removesuffix(ending)
    return plain


def positive(section: Section, line: Line, what: str, text: str, *, scale: float = 1.0) -> float:
    """Return a latency in milliseconds, or raise a DatasetError where it is not a finite number above 0."""
    # Python also takes 1_000 and digits of other scripts for numbers.
    value = float(text) * scale if _DECIMAL.fullmatch(text.strip()) else float("nan")
    if not 0 < value < float("inf"):
        raise section.refused(f"{what} is {text}; expected a finite number above 0", line)
    if not LEAST_MS <= value <= MOST_MS:
        raise section.refused(f"{what} is {text}; expected {LEAST_MS:g} to {MOST_MS:g} ms", line)
    return value
