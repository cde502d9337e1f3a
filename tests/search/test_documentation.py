"""The example in the documentation runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "search.md"


def test_the_example_of_the_page_estimates_a_hundred_networks() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}

    exec(compile(example, str(DOCUMENT), "exec"), names)

    latency_ms = names["latency_ms"](names["encodings"])
    assert latency_ms.shape == (100,)
    slowest = int(np.argmax(latency_ms))
    # Within the limit there is no penalty, beyond it the excess over it.
    excess = names["latency_ms"].excess(names["encodings"], max_latency_ms=float(latency_ms[slowest]) / 1.1)
    assert excess[slowest] == pytest.approx(0.1)
    assert excess[slowest] == excess.max()
