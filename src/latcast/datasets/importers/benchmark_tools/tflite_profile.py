"""The table of operators that ``benchmark_model --enable_op_profiling=true`` prints.

Its columns differ between versions: ``[start]`` came and went. ``[avg ms]`` is of one call, and ``[times called]`` how often
an inference calls what the line stands for; XNNPACK's convolutions of one kind that follow each other share a line.
"""

from __future__ import annotations

import re

from latcast.datasets.importers.benchmark_tools.output import Line, ProfiledOperator, Section

_TITLE = "Operator-wise Profiling Info for Regular Benchmark Runs:"
_ORDER = "Run Order"
_ENABLED = "Enable op profiling: [1]"
_ELSEWHERE = "CSV File to export profiling data to: ["
_COLUMNS = re.compile(r"\[([^\]]+)\]")
INSIDE = "Delegate/"
"""How the names of lines begin that stand for a kernel of a delegate."""

_INSIDE_KIND = "DelegateOpInvoke"
"""What older versions call every such line."""

_NEEDED = ("node type", "avg ms", "times called", "Name")


def read_profile(section: Section) -> tuple[ProfiledOperator, ...]:
    """The kernels in the order in which they ran; none where the tool did not profile.

    Raises:
        DatasetError: The table is cut off, or its columns are other ones.
    """
    lines = iter(section.lines)
    if not any(_TITLE in line.text for line in lines):
        if any(_ENABLED in line.text for line in section.lines) and not any(_ELSEWHERE in line.text for line in section.lines):
            raise section.refused(f"the output of benchmark_model ends before '{_TITLE}'; run it again")
        return ()
    if not any(_ORDER in line.text for line in lines):
        raise section.refused("the profile ends before its table 'Run Order'; run the tool again")
    header = next(lines, None)
    if header is None:
        raise section.refused("the profile ends before its table's columns; run the tool again")
    columns = _COLUMNS.findall(header.text)
    if any(name not in columns for name in _NEEDED) or columns[0] != "node type" or columns[-1] != "Name":
        raise section.refused(
            f"the profile has the columns {', '.join(columns) or 'none'}; expected {', '.join(_NEEDED)}", header
        )
    numbers = columns[1:-1]
    row = re.compile(r"\s*(\S.*?)" + r"\s+(-?[\d.]+)%?" * len(numbers) + r"\s+(\S.*)")
    kernels: list[ProfiledOperator] = []
    for line in lines:
        # Only an empty line ends the table; blanks are a row that was cut off.
        if not line.text:
            return tuple(kernels)
        kernels.append(_kernel(section, line, row, numbers))
    raise section.refused("the profile ends inside its table 'Run Order'; run the tool again")


def _kernel(section: Section, line: Line, row: re.Pattern[str], numbers: list[str]) -> ProfiledOperator:
    found = row.fullmatch(line.text)
    if found is None:
        raise section.refused(f"'{line.text.strip()}' is no row of the profile; expected {len(numbers)} numbers and a name", line)
    values = dict(zip(numbers, found.groups()[1:-1], strict=True))
    plain, _, index = found.groups()[-1].rpartition(":")
    name = plain.strip("[]") or found.groups()[-1]
    try:
        # Old versions say 0 times where an operator runs once.
        calls = max(1, int(values["times called"]))
        latency_ms = float(values["avg ms"]) * calls
        number = int(index) if index.isdecimal() else -1
        if not 0 <= latency_ms < float("inf"):
            raise ValueError
    except (ValueError, OverflowError):
        raise section.refused(f"'{line.text.strip()}' holds what is no number", line) from None
    kind = name.removeprefix(INSIDE) if found[1] == _INSIDE_KIND else found[1]
    return ProfiledOperator(kind, name, number, latency_ms, calls)
