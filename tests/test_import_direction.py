"""The source flows one way: each room of the package imports only from the rooms above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "latcast"

PACKAGE = "latcast"
ROOMS = (
    "version", "errors", "extras", "folders", "reading", "registry", "tables", "records", "environment", "cluster", "drawing",
    "chips", "graph", "kernels", "spaces", "networks", "predictors", "llm",
    "samplers", "runtimes", "measure", "datasets", "fusion",
    "devices", "platforms", "forecast", "report",
    "training", "search", "workgroups", "hub", "testing", "cli",
)  # fmt: skip
FLOOR = ROOMS[-1]
"""The lowest room: it alone may import the package root, and ``python -m latcast`` counts as part of it."""


def module_name(source: Path, file: Path) -> str:
    """``graph/ir.py`` below ``source`` as ``latcast.graph.ir``."""
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join((PACKAGE, *(part for part in parts if part != "__init__")))


def room_of(module: str) -> str:
    """The room a module lies in; the empty string for the package root."""
    room = module.partition(".")[2].partition(".")[0]
    return FLOOR if room == "__main__" else room


def imported_modules(module: str, is_package: bool, tree: ast.Module) -> Iterator[str]:
    """Modules of this package that a file imports, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                ancestors = module.split(".") if is_package else module.split(".")[:-1]
                base = ancestors[: len(ancestors) - node.level + 1]
                origin = ".".join([*base, origin] if origin else base)
            # `from latcast import graph` names a room, `from latcast import __version__` the root.
            names = [f"{origin}.{alias.name}" if alias.name in ROOMS else origin for alias in node.names]
        else:
            continue
        yield from (name for name in names if name == PACKAGE or name.startswith(f"{PACKAGE}."))


def violations(source: Path) -> list[str]:
    """One sentence for each import against the direction, and for each room without a place in it."""
    found = []
    for file in sorted(source.rglob("*.py")):
        module = module_name(source, file)
        room = room_of(module)
        if not room:
            continue  # the root's __init__ may re-export from anywhere
        if room not in ROOMS:
            found.append(f"{module} lies in the room '{room}', which has no place in ROOMS")
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        for imported in imported_modules(module, file.name == "__init__.py", tree):
            target = room_of(imported)
            if not target:
                if room != FLOOR:
                    found.append(f"{module} imports {imported} itself (only {PACKAGE}.{FLOOR} may)")
            elif target not in ROOMS:
                found.append(f"{module} imports {imported}, whose room '{target}' has no place in ROOMS")
            elif ROOMS.index(target) > ROOMS.index(room):
                found.append(f"{module} imports {imported} (below it)")
    return sorted(set(found))


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "graph/x.py",
            "from latcast.measure import settings",
            "latcast.graph.x imports latcast.measure (below it)",
        ),
        ("graph/x.py", "import latcast.cli.main", "latcast.graph.x imports latcast.cli.main (below it)"),
        ("graph/x.py", "from latcast import kernels", "latcast.graph.x imports latcast.kernels (below it)"),
        ("graph/x.py", "from ..search import nas", "latcast.graph.x imports latcast.search (below it)"),
        ("graph/__init__.py", "from .. import fusion", "latcast.graph imports latcast.fusion (below it)"),
        (
            "graph/a/x.py",
            "def f():\n    from ...report import html",
            "latcast.graph.a.x imports latcast.report (below it)",
        ),
        (
            "errors.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from latcast.graph.ir import Graph",
            "latcast.errors imports latcast.graph.ir (below it)",
        ),
        ("spaces/x.py", "import latcast", "latcast.spaces.x imports latcast itself (only latcast.cli may)"),
        (
            "spaces/x.py",
            "from latcast import __version__",
            "latcast.spaces.x imports latcast itself (only latcast.cli may)",
        ),
        ("attic/x.py", "", "latcast.attic.x lies in the room 'attic', which has no place in ROOMS"),
    ],
)
def test_an_import_against_the_direction_is_named(tmp_path: Path, file: str, text: str, expected: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text, encoding="utf-8")

    assert violations(tmp_path) == [expected]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("measure/x.py", "from latcast.graph.ir import Graph"),
        ("measure/x.py", "from . import settings\nfrom ..graph import ir\nimport latcast.records"),
        ("measure/x.py", "import latcastle\nimport numpy"),
        ("cli/main.py", "import latcast\nfrom latcast import __version__, search"),
        ("__main__.py", "from latcast.cli.main import run"),
        ("__init__.py", "from latcast.predictors import load"),
    ],
)
def test_an_import_along_the_direction_is_fine(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text, encoding="utf-8")

    assert violations(tmp_path) == []


def test_every_room_imports_only_from_the_rooms_above_it() -> None:
    assert (SOURCE / "__init__.py").is_file(), f"no package at {SOURCE}"

    found = violations(SOURCE)

    assert not found, "imports against the direction:\n  " + "\n  ".join(found)


WINGS: dict[str, tuple[str, ...]] = {
    "core": (
        "version", "errors", "extras", "folders", "reading", "registry", "tables", "records", "environment", "cluster", "drawing",
        "chips", "graph", "kernels", "spaces", "networks", "predictors", "llm", "devices", "platforms",
        "forecast", "report",
    ),
    "lab": (
        "graph.writers", "samplers", "runtimes", "measure", "datasets", "fusion", "training", "testing",
        "devices.measured_files", "devices.signature_kit",
    ),
    "research": ("search", "workgroups"),
    "hub": ("hub",),
}  # fmt: skip
"""Wing to its rooms, and modules that belong to another wing than their room. The core is what predicting takes; the lab measures
and trains; the command line imports all of them, each command when it runs."""


def wing_of(module: str) -> str:
    """Return the wing of a module: that of the longest name in :data:`WINGS` that it lies in."""
    name = module.removeprefix(f"{PACKAGE}.")
    within = [(len(each), wing) for wing, names in WINGS.items() for each in names if f"{name}.".startswith(f"{each}.")]
    return max(within)[1] if within else ""


def test_every_room_is_in_a_wing_and_the_command_line_in_none() -> None:
    rooms = {f"{PACKAGE}.{room}" for room in ROOMS}

    assert {room for room in rooms if not wing_of(room)} == {f"{PACKAGE}.{FLOOR}"}


def test_the_page_on_architecture_lists_the_rooms_in_this_order() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = page.partition("| room |")[2].partition("\n\n")[0].splitlines()
    listed = re.findall(r"`(\w+)/?`", " ".join(row.split("|")[1] for row in rows[2:]))

    assert tuple(listed) == ROOMS


def test_the_core_imports_nothing_of_the_other_wings() -> None:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        module = module_name(SOURCE, file)
        if wing_of(module) == "core":
            tree = ast.parse(file.read_text(encoding="utf-8"))
            imports = set(imported_modules(module, file.name == "__init__.py", tree))
            found += [f"{module} imports {name}" for name in sorted(imports) if wing_of(name) not in ("core", "")]

    assert found == []


@pytest.mark.parametrize(
    ("module", "wing"),
    [("graph.ir", "core"), ("graph.writers.onnx", "lab"), ("devices.members", "core"), ("devices.signature_kit.writing", "lab")],
)
def test_a_module_named_in_another_wing_than_its_room_is_of_that_wing(module: str, wing: str) -> None:
    assert wing_of(f"{PACKAGE}.{module}") == wing
