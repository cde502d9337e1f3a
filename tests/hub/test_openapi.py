"""Whatever a request holds that OpenAPI allows, or does not: the server answers, and never with an error of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from latcast.datasets import jsonlines
from latcast.hub.api import JSON_LINES
from latcast.hub.database import HubDatabase
from latcast.hub.refitting import ServedModel, refit
from tests.hub.made_up import RUNTIMES, device, upload
from tests.hub.serving import QUICK, listening

pytestmark = pytest.mark.slow

EXAMPLES = 25
"""Requests of each operation, right ones and wrong ones each."""

OPERATIONS = 19


@pytest.fixture(params=["empty", "filled"])
def served(
    request: pytest.FixtureRequest, database: HubDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    if request.param == "filled":
        upload(database, [*jsonlines.read(RUNTIMES), *device("phone", 2.0)])
        refit(database, ServedModel())
    with listening(database, replace(QUICK, models_per_minute=0, most_platforms=3)) as url:
        # The first model waits for the platforms, longer than a request is given below.
        assert httpx.post(f"{url}/api/predict?model=mobilenet_v2", timeout=120).status_code == 200
        yield url


def test_no_request_breaks_the_server(served: str, database: HubDatabase) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    schemathesis.serializer(JSON_LINES)(lambda context, value: str(value).encode("utf-8", "surrogatepass"))
    schema = schemathesis.openapi.from_url(f"{served}/api/openapi.json")
    headers = {"Authorization": f"Bearer {database.issue_token('Ann')[0]}"}
    answered: Counter[tuple[str, int]] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                answer = case.call(headers=headers)
                assert answer.status_code < 500, f"{case.as_curl_command()}: {answer.text}"
                answered[case.operation.label, answer.status_code] += 1

            with suppress(Unsatisfiable):  # an operation without parameters cannot be called wrongly
                ask()

    print(dict(answered))
    assert len({label for label, _ in answered}) == OPERATIONS
    assert sum(count for (_, status), count in answered.items() if status == 200) > EXAMPLES
    assert sum(count for (_, status), count in answered.items() if status in (400, 401, 404, 422)) > EXAMPLES
