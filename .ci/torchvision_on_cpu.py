"""Lets the environment's torchvision be imported beside PyTorch's CPU build; ``make test`` installs it into ``.venv``.

PyPI's builds of torchvision for x86-64 Linux are made for CUDA. Beside a CPU build of torch their compiled operators cannot be
loaded, and the import fails over two of them, whose shapes are described whether they are there or not. Networks need neither
(they suppress overlapping boxes after a detector), so they are declared, without an implementation, before torchvision asks.
Where the compiled operators can be loaded, nothing is changed.

    python .ci/torchvision_on_cpu.py       puts this file into the running Python's environment
"""

from __future__ import annotations

# Every start of Python in the environment imports this file: nothing else is imported before it is needed.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

DECLARED = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class DeclaredOperators:
    """A finder of modules that declares the operators when torchvision is first looked for."""

    library: object = None

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torchvision" or DeclaredOperators.library is not None:
            return None
        from importlib.machinery import PathFinder

        DeclaredOperators.library = self  # importing torch may look for torchvision in turn
        found = PathFinder.find_spec(name)
        if found is not None and found.origin is not None and not _loads(found.origin.replace("__init__.py", "_C.so")):
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for signature in DECLARED:
                library.define(signature)
            DeclaredOperators.library = library  # its end would take the declarations back
        return found


def _loads(path: str) -> bool:
    import ctypes

    import torch  # noqa: F401  # whose libraries the compiled operators need

    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


def install() -> None:
    """Into the running environment: a module, and the line that starts it with Python."""
    import sysconfig
    from pathlib import Path

    folder = Path(sysconfig.get_paths()["purelib"])
    (folder / "torchvision_on_cpu.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    line = "import sys, torchvision_on_cpu; sys.meta_path.insert(0, torchvision_on_cpu.DeclaredOperators())\n"
    (folder / "torchvision_on_cpu.pth").write_text(line, encoding="utf-8")


if __name__ == "__main__":
    install()
