"""Strangers' models: read in a process of its own, predicted on all platforms, refused in one line, and forgotten."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import tflite
from onnx import TensorProto, helper
from starlette.testclient import TestClient

from benchmarks.hub.bombs import slow_model, starve
from latcast.errors import UnknownPlatformError
from latcast.forecast import predict
from latcast.graph.importers import load_graph
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from latcast.hub import model_forecasts
from latcast.hub.app import make_app
from latcast.hub.connections import Door
from latcast.hub.database import HubDatabase
from latcast.hub.isolation import IsolatedForecasts, Limits
from latcast.hub.limits import USUAL_CPU_S
from latcast.hub.model_forecasts import ModelAnswer, ModelRequest
from latcast.hub.site import ServerSettings, Site
from latcast.networks import read_model
from latcast.platforms import load, platforms_meant
from tests.corpus.conftest import corpus_files
from tests.hub.serving import QUICK, client, dynamic_model, listening, wait_for

SETTINGS = replace(QUICK, models_per_minute=0, most_platforms=6)


@pytest.fixture(scope="module")
def http(empty_hub: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One server for all tests, as loading platforms takes a second."""
    path = shutil.copy(empty_hub, tmp_path_factory.mktemp("hub"))
    with HubDatabase(path) as database, client(database, SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def squeezenet() -> bytes:
    return to_onnx(read_model("squeezenet1_1"))


def detail(answer: Any) -> str:
    text = answer.json()["detail"]
    assert isinstance(text, str)
    assert text.isprintable()
    assert len(text) <= 500
    return text


def test_a_file_is_predicted_as_the_command_line_would(http: TestClient, squeezenet: bytes) -> None:
    answer = http.post("/api/predict?name=mine.onnx", content=squeezenet)
    found = answer.json()

    assert answer.status_code == 200
    assert found["model"]["name"] == "mine.onnx"
    assert found["model"]["inputs"] == [{"name": "input", "shape": [1, 3, 224, 224]}]
    assert found["not_predicted"] == 0
    assert len(found["predictions"]) == 6
    assert found["predictions"] == sorted(found["predictions"], key=lambda row: row["latency_ms"])
    for row in found["predictions"]:
        expected = predict("squeezenet1_1", row["platform"])
        assert row["latency_ms"] == pytest.approx(expected.latency_ms, rel=1e-6)
        assert row["low_ms"] == pytest.approx(expected.low_ms, rel=1e-6)
        assert row["kind"] in ("cpu", "gpu", "npu")
        assert row["model"] == "mine.onnx"


def test_platforms_are_chosen_as_the_command_line_takes_them(http: TestClient) -> None:
    def on(text: str) -> dict[str, Any]:
        found: dict[str, Any] = http.post("/api/predict", params={"model": "squeezenet1_1", "on": text}).json()
        return found

    assert [row["platform"] for row in on("galaxy a03s int8 1LARGE")["predictions"]] == ["a03s/pytorch-2.0/1large/int8"]
    assert len(on("a03s/*/fp32")["predictions"]) == 3
    [row] = on("Exynos 2400 npu")["predictions"]
    assert (row["source"], row["chip"], row["kind"]) == ("chip", "Exynos 2400", "npu")
    assert on("Exynos 2400 npu")["note"] == "'Exynos 2400 npu' is answered from its chip"
    assert len(http.post("/api/predict", params={"model": "squeezenet1_1", "kernels": row["platform"]}).json()["kernels"]) == 15
    assert "no platform of 'abacus' is known; " in on("abacus")["detail"]


@pytest.mark.parametrize(
    "text",
    [
        "Pixel 4",
        "pixel 6",
        "Snapdragon 8 Elite",
        "Galaxy S24",
        "SM-S921B",
        "rk3588 npu",
        "Pixel4/TFLite/GPU/fp16",
        "s10/tflite-2.10/gpu/fp16",
        "coral",
    ],
)
def test_a_name_means_what_the_command_line_takes(sqlite: HubDatabase, text: str) -> None:
    said: list[str] = []
    try:
        expected = {load(each).platform.id for each in platforms_meant(text, said.append)}
    except UnknownPlatformError:
        expected = set()
    with client(sqlite, replace(QUICK, seed=True, refit=False)) as http:
        found = http.get("/api/named", params={"text": text}).json()

    assert {*found.get("taken", ()), *found.get("from_chip", ())} == expected
    assert found.get("note", "") == "".join(said)
    assert expected or found["detail"].startswith(f"no platform of '{text}' is known; ")


def test_kernels_of_one_platform_are_the_longest_first(http: TestClient) -> None:
    platform = http.post("/api/predict?model=squeezenet1_1").json()["predictions"][0]["platform"]
    found = http.post("/api/predict", params={"model": "squeezenet1_1", "kernels": platform, "top": 3}).json()

    spent = [kernel["latency_ms"] for kernel in found["kernels"]]
    assert len(spent) == 3
    assert spent == sorted(spent, reverse=True)
    assert found["all_kernels"] > 20
    assert sum(found["by_type"].values()) + found["prediction"]["overhead_ms"] == pytest.approx(
        found["prediction"]["latency_ms"], rel=1e-6
    )
    assert "no platform of 'abacus' is known" in detail(http.post("/api/predict?model=squeezenet1_1&kernels=abacus"))


def test_dynamic_sizes_are_asked_for_and_taken(http: TestClient) -> None:
    content = dynamic_model()

    refused = http.post("/api/predict", content=content)
    assert refused.status_code == 422
    assert "shape=x=" in detail(refused)
    taken = http.post("/api/predict?shape=x=2,8,32,32", content=content)
    assert taken.json()["model"]["inputs"] == [{"name": "x", "shape": [2, 8, 32, 32]}]
    assert "is not of the form" in detail(http.post("/api/predict?shape=x", content=content))


def test_a_file_that_is_not_a_model_is_refused_in_one_line(http: TestClient) -> None:
    assert "no model in the request" in detail(http.post("/api/predict"))
    assert "is text that begins with 'hello'" in detail(http.post("/api/predict?name=a.onnx", content=b"hello"))
    assert http.post("/api/predict?model=/etc/passwd").status_code == 422
    assert http.post("/api/predict?shared=0123456789abcdef").status_code == 404


def test_data_beside_the_file_is_not_looked_for(http: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's external data would lie in the server's folder of temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "sizes").write_bytes(b"".join(size.to_bytes(8, "little") for size in (1, 8192)))
    sizes = helper.make_tensor("sizes", TensorProto.INT64, (2,), (0, 0))
    sizes.ClearField("int64_data")
    sizes.data_location = TensorProto.EXTERNAL
    sizes.external_data.add(key="location", value="sizes")
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, 32, 32)), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "sizes"], ["y"])], "g", ends[:1], ends[1:], [sizes])
    model = helper.make_model(graph)
    onnx.save(model, tmp_path / "beside.onnx")

    assert load_graph(tmp_path / "beside.onnx").outputs == ("y",)
    refused = http.post("/api/predict", content=model.SerializeToString())
    assert "needs the values of 'sizes'" in detail(refused)


def test_files_that_broke_readers_are_read_or_refused_in_one_line(http: TestClient) -> None:
    files = [file for file in corpus_files("*/*.onnx", "*/*.tflite", "*.onnx") if file.stat().st_size < 1_000_000]
    if not files:
        pytest.skip("no corpus here")
    for file in files:
        if file.name == "function_bomb_14.onnx":
            continue  # 16,000 nodes, which are read, and take ten seconds
        answer = http.post("/api/predict", params={"name": file.name}, content=file.read_bytes())
        assert answer.status_code in (200, 422), file
        assert answer.status_code == 200 or detail(answer), file
    assert http.post("/api/predict?model=squeezenet1_1").status_code == 200


def test_nothing_is_kept_unless_its_user_says_so(http: TestClient, squeezenet: bytes) -> None:
    database = http.app.state.site.database  # type: ignore[attr-defined]
    key = http.post("/api/predict?name=secret", content=squeezenet).json()["model"]["key"]
    assert database.shared_model(key) is None

    shared = http.post("/api/predict?name=secret&share=true", content=squeezenet).json()
    assert shared["link"] == f"/model/{key}"
    assert http.get(shared["link"]).status_code == 200
    assert b"secret" not in database.shared_model(key)
    again = http.post(f"/api/predict?shared={key}").json()
    assert [row["latency_ms"] for row in again["predictions"]] == [row["latency_ms"] for row in shared["predictions"]]


@pytest.mark.parametrize("limits", [Limits(wall_s=0.05, cpu_s=7), Limits(memory_bytes=1 << 23)], ids=["time", "memory"])
def test_a_model_that_takes_too_much_is_an_answer_of_one_line(tmp_path: Path, limits: Limits) -> None:
    """A chain of 20,000 operators in 0.05 s, or in 8 MiB; it counts as the processor time that it was given."""
    (tmp_path / "a.onnx").write_bytes(slow_model())
    forecasts = IsolatedForecasts(limits=limits, most_platforms=1)
    try:
        with (tmp_path / "a.onnx").open("rb") as content:
            [answer] = forecasts.ask_now(ModelRequest(), content)
    finally:
        forecasts.stop()

    assert answer.status == 422
    assert re.search(rb"the model takes more (than \d+ s of processor time or|memory to read)", answer.body)
    assert limits.wall_s > 1 or answer.cpu_s == limits.cpu_s


def test_the_process_that_forks_is_started_again_where_it_was_killed(tmp_path: Path, squeezenet: bytes) -> None:
    file = tmp_path / "a.onnx"
    file.write_bytes(squeezenet)
    forecasts = IsolatedForecasts(most_platforms=1)
    forecasts.start()
    assert forecasts._process is not None
    try:
        os.kill(forecasts._process.pid, signal.SIGKILL)
        with file.open("rb") as content:
            [answer] = forecasts.ask_now(ModelRequest(), content)
    finally:
        forecasts.stop()

    assert answer.status == 200
    assert 0 < answer.cpu_s < Limits().cpu_s


def answering(site: Site, monkeypatch: pytest.MonkeyPatch, cpu_s: float) -> tuple[threading.Event, list[str]]:
    """Has models read without end until an event, each for so much processor time; returns it and the names of those begun."""
    go_on, begun = threading.Event(), []

    def ask_now(request: ModelRequest, content: Any) -> Iterator[ModelAnswer]:
        begun.append(request.name)
        go_on.wait(20)
        yield ModelAnswer(200, gzip.compress(b"{}"), cpu_s=cpu_s)

    monkeypatch.setattr(site.models, "ask_now", ask_now)
    return go_on, begun


@pytest.fixture
def others(sqlite: HubDatabase) -> Iterator[tuple[TestClient, Site]]:
    """A server that believes the address in a header of a request, and lets each address spend ten models at once."""
    app = make_app(sqlite, replace(SETTINGS, models_per_minute=30))

    async def addressed(scope: Any, receive: Any, send: Any) -> None:
        address = dict(scope.get("headers", ())).get(b"x-address", b"local").decode()
        await app({**scope, "client": (address, 1)}, receive, send)

    with TestClient(addressed, base_url="http://localhost") as found:
        yield found, app.state.site


def ask(http: TestClient, address: str, name: str = "squeezenet1_1") -> Any:
    return http.post(f"/api/predict?model={name}", headers={"x-address": address})


def test_models_of_one_address_are_read_one_after_the_other(
    others: tuple[TestClient, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    http, site = others
    go_on, begun = answering(site, monkeypatch, 0.1)
    with ThreadPoolExecutor(8) as pool:
        mine = [pool.submit(ask, http, "10.0.0.1", f"mine {index}") for index in range(6)]
        refused = wait_for(lambda: [each for each in mine if each.done()][1:])
        theirs = [pool.submit(ask, http, f"10.0.0.{index}", f"theirs {index}") for index in (2, 3)]
        wait_for(lambda: len(begun) == 3)
        go_on.set()

    assert [each.result().status_code for each in refused] == [503]
    assert sorted(each.result().status_code for each in mine) == [200] * 4 + [503] * 2
    assert [each.result().status_code for each in theirs] == [200, 200]
    assert {"theirs 2", "theirs 3"} < set(begun[:3])
    assert len(begun) == 6


def test_processor_time_counts_as_more_models(others: tuple[TestClient, Site], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten at once: the third of eight seconds each, which count as four, owes two; at one in two seconds that is paid in six."""
    http, site = others
    answering(site, monkeypatch, 4 * USUAL_CPU_S)[0].set()

    answers = [ask(http, "10.0.0.1") for _ in range(4)]

    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert 5 <= int(answers[3].headers["retry-after"]) <= 6
    assert ask(http, "10.0.0.2").status_code == 200


def test_models_that_wait_are_refused_once_those_before_them_cost_too_much(
    others: tuple[TestClient, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    http, site = others
    go_on, begun = answering(site, monkeypatch, 12 * USUAL_CPU_S)
    with ThreadPoolExecutor(3) as pool:
        mine = [pool.submit(ask, http, "10.0.0.1", str(index)) for index in range(3)]
        wait_for(lambda: begun)
        wait_for(lambda: site.models.inside == 1)
        time.sleep(0.2)
        go_on.set()

    assert sorted(each.result().status_code for each in mine) == [200, 429, 429]
    assert len(begun) == 1


def test_a_tflite_file_with_zeros_for_its_weights_is_predicted_however_densely_it_packs(http: TestClient) -> None:
    file = bytearray(to_tflite(read_model("squeezenet1_1")))
    whole = http.post("/api/predict?name=mine.tflite", content=bytes(file)).json()
    model = tflite.Model.GetRootAs(file, 0)
    for buffer in map(model.Buffers, range(model.BuffersLength())):
        if buffer.DataLength() > 1024:
            buffer.DataAsNumpy()[:] = 0
    zeroed = gzip.compress(bytes(file))

    answer = http.post("/api/predict?name=mine.tflite", content=zeroed, headers={"content-encoding": "gzip"})

    assert len(file) > 100 * len(zeroed)
    assert answer.status_code == 200
    assert answer.json()["predictions"] == whole["predictions"]


def test_zeros_packed_densely_are_refused_before_they_are_unpacked(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = answering(http.app.state.site, monkeypatch, 0.0)[1]  # type: ignore[attr-defined]

    refused = http.post("/api/predict", content=gzip.compress(bytes(30_000_000)), headers={"content-encoding": "gzip"})

    assert refused.status_code == 413
    assert "expected at most 100 times as much; leave out the weights" in detail(refused)
    assert begun == []


@pytest.mark.slow
def test_a_user_is_answered_nearly_as_fast_while_twelve_bombs_come_from_two_addresses(sqlite: HubDatabase) -> None:
    settings = ServerSettings(refit=False, preload=True, most_platforms=60)
    with listening(sqlite, settings, Door()) as url:
        found = starve(url)

    assert found.ratio < 2
    assert found.bombs == 12


def test_platforms_left_when_the_time_is_over_are_counted(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_forecasts, "PREDICTING_CPU_S", 0.0)
    monkeypatch.setattr(model_forecasts, "AT_ONCE", 2)
    known = model_forecasts.Known.loaded(5)
    [answer] = model_forecasts.predict_model(vars(ModelRequest("squeezenet1_1", "name")), 0, known)

    found = json.loads(answer.body)
    assert len(found["predictions"]) == 2
    assert found["not_predicted"] == 3


def test_predictions_come_in_lines_as_they_are_made_and_are_those_of_the_whole_answer(http: TestClient) -> None:
    accept = {"accept": "application/x-ndjson"}

    whole = http.post("/api/predict?model=squeezenet1_1").json()
    streamed = http.post("/api/predict?model=squeezenet1_1", headers=accept)
    refused = http.post("/api/predict?model=nosuch", headers=accept)

    first, *others = [json.loads(line) for line in streamed.text.splitlines()]
    rows = [row for each in (first, *others) for row in each.get("predictions", ())]
    assert first["model"] == whole["model"]
    assert sorted(rows, key=lambda row: (row["latency_ms"], row["platform"])) == whole["predictions"]
    assert others[-1] == {"not_predicted": 0}
    assert (refused.status_code, list(refused.json())) == (422, ["detail"])


def test_a_client_that_stops_reading_does_not_keep_its_turn(http: TestClient) -> None:
    async def turn_is_free_again() -> bool:
        """Ask and stop reading at the first line; return whether the rest was computed and the place given back."""
        begun, done = asyncio.Event(), asyncio.Event()
        scope = {
            "type": "http", "method": "POST", "path": "/api/predict", "raw_path": b"/api/predict", "scheme": "http",
            "query_string": b"model=squeezenet1_1", "headers": [(b"accept", b"application/x-ndjson")], "http_version": "1.1",
            "client": ("192.0.2.9", 1), "server": ("hub", 80), "root_path": "",
        }  # fmt: skip
        bodies = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            for body in bodies:
                return body
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                begun.set()
                await done.wait()

        asked = asyncio.create_task(http.app(scope, receive, send))  # type: ignore[arg-type]
        await asyncio.wait_for(begun.wait(), 60)
        turns = http.app.state.site.turns  # type: ignore[attr-defined]
        for _ in range(600):
            if not turns._inside.total():
                break
            await asyncio.sleep(0.05)
        free = not turns._inside.total()
        done.set()
        await asked
        return free

    assert asyncio.run(turn_is_free_again())
