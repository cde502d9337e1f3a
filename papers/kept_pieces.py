"""A folder of finished pieces of an evaluation, so that an interrupted one goes on where it was.

A piece is kept under a name made of what it is, of the data and of the source code that computes it: no figure outlives the
code or the data that gave it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


def source_digest(packages: Iterable[str], suffixes: Iterable[str] = (".py",)) -> str:
    """Of the source in some packages, ``latcast.kernels`` for instance."""
    return _digest_of(
        (f"{package}/{file.relative_to(folder)}", file)
        for package in packages
        for folder in _folders(package)
        for file in sorted(folder.rglob("*"))
        if file.suffix in suffixes
    )


def _folders(package: str) -> list[Path]:
    found = find_spec(package)
    return [Path(place) for place in (found and found.submodule_search_locations) or ()]


def files_digest(files: Iterable[Path]) -> str:
    """Of files by their names and contents."""
    return _digest_of((file.name, file) for file in sorted(files) if file.is_file())


def _digest_of(named: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, file in named:
        digest.update(name.encode() + file.read_bytes())
    return digest.hexdigest()


def one_thread() -> None:
    """Keeps the linear algebra of a process to its own core."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    threadpool_limits(1)


@dataclass(frozen=True)
class KeptPieces(Generic[Result]):
    """A folder of finished pieces; each evaluation says what its code is and how a result is written.

    Attributes:
        folder: Where they are; made when the first is kept.
        data: Digest of the measurements.
        fresh: Whether pieces that are there are computed again.
    """

    folder: Path
    data: str
    fresh: bool = False

    def code(self) -> str:
        """Digest of the source that computes pieces."""
        raise NotImplementedError

    def encode(self, result: Result) -> Any:
        """A result as JSON."""
        raise NotImplementedError

    def decode(self, document: Any) -> Result:
        """What :meth:`encode` gave.

        Raises:
            TypeError: Something else.
        """
        raise NotImplementedError

    def _file(self, piece: Any) -> Path:
        text = json.dumps([asdict(piece), self.data, self.code()], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def get(self, piece: Any) -> Result | None:
        """A finished piece, a dataclass; None where there is none, or its file is no good."""
        if self.fresh:
            return None
        try:
            return self.decode(json.loads(self._file(piece).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def put(self, piece: Any, result: Result) -> None:
        """Keeps a piece, whole or not at all."""
        file = self._file(piece)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(self.encode(result)))
        part.replace(file)
