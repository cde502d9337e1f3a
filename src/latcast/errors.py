"""Every exception that latcast raises on purpose.

A message says what was found, what was expected, and what to do about it. The command line prints it on one line
and exits with 1 (2 for a wrong call).
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_MESSAGE_CHARACTERS = 480
"""Length beyond which a message loses its middle, so that a line with the command's prefix stays within 500."""

_CUT = " [...] "


def printable(text: str, *, kept: str = "") -> str:
    """Return text that is safe on a terminal: what is not printable is escaped as in JSON (``\\u001b``).

    That covers control characters, ANSI escapes, marks that reverse the direction of writing, and surrogates; characters in
    ``kept``, for instance the end of a line, stay.
    """
    if text.isprintable():
        return text

    def escaped(character: str) -> str:
        code = ord(character)
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return "".join(each if each.isprintable() or each in kept else escaped(each) for each in text)


def one_line(text: str, most: int = MOST_MESSAGE_CHARACTERS) -> str:
    """Return a message as one printable line of at most ``most`` characters; a longer one is cut in the middle."""
    # Cut before it is escaped too: the text may be a file of gigabytes.
    line = printable(" ".join(_cut(text, 8 * most).split()))
    return _cut(line, most)


def abridged(names: Sequence[str], most: int) -> str:
    """Return the first names and the number of the others: "resnet18, resnet34 and 7 more"."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(number: int, what: str) -> str:
    """Return a number with what it counts: "1 network", "3 networks"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = (most - len(_CUT)) // 2
    return text[: most - len(_CUT) - end] + _CUT + text[len(text) - end :]


class LatcastError(Exception):
    """Root of all errors of this package.

    Its text is one printable line of bounded length, whatever names from a file the message repeats.
    """

    most_characters = MOST_MESSAGE_CHARACTERS

    def __str__(self) -> str:
        return one_line(super().__str__(), self.most_characters)


class ModelError(LatcastError):
    """A model file or an in-memory model cannot be turned into a graph."""


class DynamicShapeError(ModelError):
    """A dimension has no number; the message names the tensor and the dimension, and suggests sizes for every input."""

    most_characters = 8000
    """Room for the 64 caches of a language model of 32 layers, since a part of a command cannot be pasted."""


class UnknownOperatorError(ModelError):
    """An operator has no entry in the operator table and the caller asked for strictness."""


class UnsupportedOperatorError(LatcastError):
    """A writer or a runtime has no way to express an operator."""


class RuntimeFailure(LatcastError):
    """A runtime refused to load or to run a network, or its worker died."""


CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""Brings PyTorch for the CPU alone; PyPI's builds for Linux bring CUDA."""


class MissingExtraError(LatcastError):
    """An optional dependency is not installed; the message gives the command that adds it.

    Args:
        package: The missing distribution.
        extra: The extra of latcast that brings it; empty where none does.
        purpose: The work that needs it.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        wanted = f"'latcast[{extra}]'" if extra else package
        cuda = f" ({CPU_TORCH} brings one without CUDA, which takes gigabytes less)" if package == "torch" else ""
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed{cuda}; add it with: pip install {wanted}"
        )
        self.package = package
        self.extra = extra


class ClusterError(LatcastError):
    """Other machines cannot be reached, or do not offer what is needed."""


class MeasurementError(LatcastError):
    """A measurement, a campaign or a store of measurements is not usable."""


class DatasetError(LatcastError):
    """A dataset file is malformed; the message gives file and line."""


class TrainingError(LatcastError):
    """A predictor cannot be trained from what was given."""


class BundleError(LatcastError):
    """A predictor bundle is damaged, unsafe, or of a newer schema."""


class UnknownPlatformError(LatcastError):
    """No predictor for a platform; the message suggests the nearest names."""


class UnknownNameError(LatcastError):
    """A plug-in, family, sampler or kernel type of this name does not exist."""


class HubError(LatcastError):
    """The shared hub refuses something, or cannot be reached.

    Args:
        message: What was found, what was expected, what to do.
        status: HTTP status of the refusal.
        retry_after_s: Seconds after which to ask again.
    """

    def __init__(self, message: str, status: int = 422, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
