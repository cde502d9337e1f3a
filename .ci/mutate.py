"""Plants single faults in the code, one at a time, and counts how many of them the tests notice: ``make mutate``.

The faults are mutmut's: an operator, a number, a comparison or a condition changed, an argument or a value gone. All of them in
the rooms of :data:`SCOPE` would take days, so a random sample is drawn, the same one for the same seed. Each fault runs the few
test files that are closest to its module; slow tests only with ``--slow``. It is noticed when one fails or does not end in
time; a fault that only a test further away would notice counts as survived. Wording is left out: what ``raise`` says is no fault.

The working tree is not touched: faults are planted in a copy. What was found is kept in :data:`WORK`, so that a run that was
interrupted goes on, and ``--again`` tries the survivors against tests that were added since.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCOPE = ("kernels", "predictors", "training", "measure", "devices")
WORK = ROOT / ".mutation"

MOST_FILES = 6
"""Test files that one fault runs."""

LIMIT_S = 90.0
"""Processor time after which tests are taken to run for ever."""

WAIT_S = 900.0
"""The same by the clock: a test that sleeps for ever uses no processor."""

IN_ADVANCE = (
    "numpy", "scipy.optimize", "lightgbm", "onnx", "onnx_ir", "onnxruntime", "safetensors.numpy",
    "sqlalchemy", "typer", "rich.console", "hypothesis", "pytest", "pytest_timeout", "_hypothesis_pytestplugin",
)  # fmt: skip
"""Imported once; each run is a fork of this process."""

BLUNT = frozenset(f"operator_{name}" for name in ("arg_removal", "assignment", "string", "lambda", "dict_arguments"))
"""Faults that most often break whatever runs them; the others are counted apart."""


@dataclass(frozen=True)
class Fault:
    """One changed place.

    Attributes:
        module: Path below ``src/latcast``.
        function: Qualified name of the function it is in; empty at the level of the module.
        kind: Name of mutmut's operator.
        line: In the file.
        diff: What changes.
        code: The whole module with it.
    """

    module: str
    function: str
    kind: str
    line: int
    diff: str
    code: str

    @property
    def key(self) -> str:
        return f"{self.module}:{hashlib.sha256(self.diff.encode()).hexdigest()[:12]}"


def modules() -> list[str]:
    source = ROOT / "src" / "latcast"
    found = [path for part in SCOPE for path in ([source / part] if part.endswith(".py") else (source / part).rglob("*.py"))]
    return sorted(path.relative_to(source).as_posix() for path in found)


def functions_of(code: str) -> dict[int, str]:
    """Line to the qualified name of the innermost function whose body it is in."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                own = f"{name}.{child.name}" if name else child.name
                if isinstance(child, ast.FunctionDef):
                    for line in range(child.body[0].lineno, (child.end_lineno or child.lineno) + 1):
                        found[line] = own
                visit(child, own)
            else:
                visit(child, name)

    visit(ast.parse(code), "")
    return found


def places(module: str) -> list[Callable[[], Fault]]:
    """Return the faults that can be planted in a module."""
    import libcst as cst
    from libcst.metadata import MetadataWrapper, PositionProvider
    from mutmut.mutation.mutators import mutation_operators

    text = (ROOT / "src" / "latcast" / module).read_text()
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    functions = functions_of(text)

    def fault(node: cst.CSTNode, changed: cst.CSTNode, kind: str) -> Fault:
        code = wrapper.module.deep_replace(node, changed).code
        line = wrapper.resolve(PositionProvider)[node].start.line
        lines = list(difflib.unified_diff(text.splitlines(), code.splitlines(), module, module, lineterm="", n=0))
        return Fault(module, functions.get(line, ""), kind, line, "\n".join(lines[2:]), code)

    found: list[Callable[[], Fault]] = []
    for node in _mutable(wrapper.module):
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                for changed in operator(node):
                    found.append(partial(fault, node, changed, operator.__name__))
    return found


def _mutable(node: object) -> Iterator[object]:
    import libcst as cst

    meaningless = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.Raise, cst.ConcatenatedString)
    if isinstance(node, (*meaningless, cst.BaseParenthesizableWhitespace, cst.EmptyLine, cst.TrailingWhitespace, cst.Comma)):
        return
    if isinstance(node, cst.Assign) and getattr(node.targets[0].target, "value", "") == "__all__":
        return
    yield node
    for child in node.children:
        yield from _mutable(child)


def imported(file: Path) -> set[str]:
    """Modules of latcast that a file imports, as paths below ``src/latcast``; what a package passes on counts for its module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "latcast":
            for name in node.names:
                found |= _origin(node.module or "", name.name)
    return found


@cache
def _origin(package: str, name: str) -> set[str]:
    """Return the module in which a name that is imported from a package is written."""
    folder = ROOT / "src" / Path(*package.split("."))
    for path in (folder / f"{name}.py", folder.with_suffix(".py")):
        if path.exists():
            return {path.relative_to(ROOT / "src" / "latcast").as_posix()}
    start = folder / "__init__.py"
    if not start.exists():
        return set()
    passed_on = _passed_on(start).get(name)
    return {start.relative_to(ROOT / "src" / "latcast").as_posix()} | (_origin(passed_on, name) if passed_on else set())


@cache
def _passed_on(package: Path) -> dict[str, str]:
    """Names that a package passes on, to where it has them from."""
    nodes = [node for node in ast.parse(package.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in nodes for alias in node.names}


class Guards:
    """Which test files stand guard over a module: that of its name, then those from which the fewest imports lead to it."""

    def __init__(self) -> None:
        source, tests = ROOT / "src" / "latcast", ROOT / "tests"
        self.imports = {path.relative_to(source).as_posix(): imported(path) for path in source.rglob("*.py")}
        self.tests = {path.relative_to(ROOT).as_posix(): imported(path) for path in tests.rglob("test_*.py")}

    def of(self, module: str) -> list[str]:
        own, distance, step = Path(module), {module: 0}, 0
        while reached := {user for user, names in self.imports.items() if user not in distance and names & distance.keys()}:
            step += 1
            distance |= dict.fromkeys(reached, step)

        folder = f"tests/{own.parent.as_posix()}/"

        def rank(test: str) -> tuple[bool, int, bool, bool, str]:
            near = min((distance[name] for name in self.tests[test] if name in distance), default=len(distance))
            named = test == f"{folder}test_{own.stem}.py"
            return not named, near, own.stem not in test, not test.startswith(f"tests/{own.parts[0]}/"), test

        # What a registry names by a string is imported by none: the tests of its folder are those that reach it.
        found = [test for test, names in self.tests.items() if names & distance.keys() or test.startswith(folder)]
        return sorted(found, key=rank)[:MOST_FILES]


def run_tests(source: Path, tests: list[str], *, slow: bool, patience: float = 1.0) -> int:
    """Run test files on the code in ``source`` in a fork; return pytest's exit code, negative where they took too long."""
    patience *= 10 if slow else 1
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            code = _in_fork(source, tests, slow, LIMIT_S * patience)
        except BaseException:
            code = 70
        os._exit(code)
    status, end = None, time.monotonic() + WAIT_S * patience
    while status is None and time.monotonic() < end:
        done, found = os.waitpid(child, os.WNOHANG)
        status = found if done else None
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # and what its tests have started
    if status is None:
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _in_fork(source: Path, tests: list[str], slow: bool, cpu_s: float) -> int:
    import pytest

    output = os.open(WORK / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    limit_s = int(time.process_time() + cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    os.environ["PYTHONPATH"] = str(source)
    sys.path.insert(0, str(source))
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ["-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]
    options = ["-x", "-q", "--no-header", "--tb=line", *plugins, *([] if slow else ["-m", "not slow"])]
    return int(pytest.main([*options, *tests]))


PASSED = (0, 5)
"""Exit codes of pytest: all tests passed; none was there to run."""


def tried(fault: Fault, source: Path, tests: list[str], slow: bool) -> dict[str, Any]:
    """Run the tests on one fault: the first file alone, which notices most, then the others together."""
    place = source / "latcast" / fault.module
    whole = place.read_text()
    place.write_text(fault.code)
    started, ran, code = time.monotonic(), list[str](), 0
    try:
        for part in (tests[:1], tests[1:]):
            if part and code in PASSED:
                ran, code = part, run_tests(source, part, slow=slow)
    finally:
        place.write_text(whole)
    verdict = "survived" if code in PASSED else "noticed"
    if code < 0 and run_tests(source, ran, slow=slow) < 0:
        verdict = "undecided"  # the tests take too long without a fault as well
    return {
        "key": fault.key, "module": fault.module, "line": fault.line, "function": fault.function, "kind": fault.kind,
        "diff": fault.diff, "verdict": verdict, "code": code, "ran": ran, "tests": tests,
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip


def confirmed(found: list[dict[str, Any]], source: Path, slow: bool) -> list[dict[str, Any]]:
    """Without what a test noticed that fails on the code without faults too."""
    files = sorted({test for each in found if each["verdict"] == "noticed" for test in each["ran"]})
    kept = WORK / "passing.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    marks = {file: hashlib.sha256((ROOT / file).read_bytes()).hexdigest() for file in files}
    unknown = [file for file in files if known.get(file) != marks[file]]
    # Together first: a start of pytest takes longer than most files.
    together = not unknown or run_tests(source, unknown, slow=slow, patience=10) in PASSED
    failing = [file for file in unknown if not together and run_tests(source, [file], slow=slow) not in PASSED]
    kept.write_text(json.dumps(known | {file: marks[file] for file in files if file not in failing}))
    for file in failing:
        print(f"{file} fails without a fault: what it noticed is left out")
    return [each for each in found if each["verdict"] != "noticed" or not set(failing) & set(each["ran"])]


def report(found: list[dict[str, Any]], drawn: int, total: int) -> str:
    from scipy.stats import binomtest

    def share(name: str, part: list[dict[str, Any]]) -> str:
        noticed = sum(each["verdict"] == "noticed" for each in part)
        if not part:
            return f"{name}: none"
        interval = binomtest(noticed, len(part)).proportion_ci(0.9, "exact")
        low, high = 100 * interval.low, 100 * interval.high
        return (
            f"{name}: {noticed} of {len(part)} noticed, {100 * noticed / len(part):.1f} % (90 % interval {low:.1f} to {high:.1f})"
        )

    survivors = [each for each in found if each["verdict"] == "survived"]
    lines = []
    for each in sorted(survivors, key=lambda each: (each["module"], each["line"])):
        lines += [
            f"--- {each['module']}:{each['line']} {each['function']}",
            *(f"    {test}" for test in each["tests"]),
            each["diff"],
        ]
    lines.append(f"{drawn} faults drawn of {total}, {len(found)} tried, {len(survivors)} survived")
    for room in SCOPE:
        lines.append(share(f"  {room}", [each for each in found if str(each["module"]).startswith(room)]))
    lines.append(share("operators, numbers, comparisons, conditions", [each for each in found if each["kind"] not in BLUNT]))
    lines.append(share("arguments, values and strings gone", [each for each in found if each["kind"] in BLUNT]))
    lines.append(share("all", found))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Plants single faults, one at a time, and counts those that the tests notice.")
    parser.add_argument("--sample", type=int, default=200, help="faults to draw (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--only", default="", help="modules whose path below src/latcast starts like this")
    parser.add_argument("--again", action="store_true", help="try the survivors once more")
    parser.add_argument("--slow", action="store_true", help="run the slow tests too")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; the next run goes on")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", LATCAST_HOME=str(WORK / "home"))
    for name in IN_ADVANCE:
        __import__(name)
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        guards = Guards()
        every = [make for module in modules() if module.startswith(options.only) for make in places(module)]
        drawn = random.Random(options.seed).sample(every, min(options.sample, len(every)))
        print(f"{len(drawn)} faults drawn of {len(every)}", flush=True)
        record = WORK / "tried.jsonl"
        known = {each["key"]: each for each in map(json.loads, record.read_text().splitlines())} if record.exists() else {}
        found = []
        for number, make in enumerate(drawn, 1):
            fault = make()
            result = known.get(fault.key)
            if time.monotonic() < end and (result is None or (options.again and result["verdict"] != "noticed")):
                result = tried(fault, source, guards.of(fault.module), options.slow)
                with record.open("a") as lines:
                    lines.write(json.dumps(result) + "\n")
                place = f"{fault.module}:{fault.line} {fault.function}"
                print(f"{number}/{len(drawn)} {result['verdict']} {place} {fault.kind} {result['seconds']} s", flush=True)
            if result is not None:
                found.append(result)
        print(report(confirmed(found, source, options.slow), len(drawn), len(every)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
