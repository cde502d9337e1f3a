"""The example in the documentation runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "search.md"


@pytest.mark.slow
def test_the_example_runs_and_ends_near_the_latency_that_it_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(example, str(DOCUMENT), "exec"), {})

    (latency_ms,) = (float(number) for number in re.findall(r"[\d.]+", capsys.readouterr().out))
    assert latency_ms == pytest.approx(20, rel=0.2)
