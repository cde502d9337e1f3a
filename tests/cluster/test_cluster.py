"""Campaigns and predictions over several machines: real schedulers, real workers, one of them killed."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from latcast import cluster as module
from latcast.cluster import PREDICTS, connected, map_over_workers, require_offer
from latcast.datasets.store import Store
from latcast.errors import ClusterError, MissingExtraError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.client import Item
from latcast.measure.probe import QuietTimesFile
from latcast.measure.remote import open_measurer
from latcast.measure.settings import MeasurePlan
from latcast.networks import resolve_model
from latcast.platforms import load
from latcast.predictors import on_workers
from latcast.spaces.catalogue import SPACES, build, model
from tests.cluster.clustering import Cluster, cluster
from tests.measure.behaving import reference, settings

pytest.importorskip("distributed", reason="needs the extra 'dask'")

PHONE = "pixel4/tflite-2.10/1large/fp32"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        for _ in range(3):
            found.add("--no-measure")
        found.wait_for(PREDICTS, 3)
        yield found


def test_graphs_are_predicted_to_the_same_bits_though_a_worker_is_killed(
    running: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_workers, "GRAPHS_AT_ONCE", 2)
    predictor = load(PHONE)
    graphs = [build(reference) for reference in SPACES.get("squeezenet").sample(40, 3)]
    progress: list[int] = []

    def watch(done: int) -> None:
        if not progress:
            running.workers[0].send_signal(signal.SIGKILL)
        progress.append(done)

    found = on_workers.predict_on_workers(predictor, graphs, running.address, watch=watch)

    assert found == predictor.predict_many(graphs)
    assert progress == list(range(2, 41, 2))
    assert running.workers[0].wait(10) == -signal.SIGKILL
    running.wait_for(PREDICTS, 2)


def test_graphs_are_predicted_as_they_are_here(running: Cluster) -> None:
    predictor = load(PHONE)
    graphs = [build(model(name)) for name in ("resnet18", "mobilenet_v2", "squeezenet1_1")]

    found = on_workers.predict_on_workers(predictor, graphs, running.address, breakdown=True)

    assert [each.to_json(breakdown=True) for each in found] == [
        each.to_json(breakdown=True) for each in predictor.predict_many(graphs, breakdown=True)
    ]


def test_nothing_to_do_asks_nobody(running: Cluster) -> None:
    assert on_workers.predict_on_workers(load(PHONE), [], running.address) == []


def test_what_nobody_offers_is_refused_with_what_there_is(running: Cluster) -> None:
    with (
        connected(running.address) as client,
        pytest.raises(
            ClusterError, match=r"no worker of tcp://127.0.0.1:\d+ offers 'latcast:prediction'; the nearest are latcast:predict"
        ),
    ):
        require_offer(client, "latcast:prediction")


def test_another_version_is_refused(running: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERSION", "0.0.0")
    with connected(running.address) as client, pytest.raises(ClusterError, match=r"this is 0\.0\.0; .*update one"):
        list(map_over_workers(client, str, [1], PREDICTS))


def test_what_a_task_raises_is_said(running: Cluster) -> None:
    with connected(running.address) as client, pytest.raises(ClusterError, match="a worker failed: ValueError"):
        list(map_over_workers(client, int, ["no number"], PREDICTS))


def test_no_scheduler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(ClusterError, match=r"no scheduler answers at 'tcp://127.0.0.1:9'"), connected("tcp://127.0.0.1:9"):
        pass


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"latcast\[dask\]"), connected("tcp://127.0.0.1:9"):
        pass


PLAN = MeasurePlan(rounds=1, runs_per_round=2, warmup_runs=0, batch_size=2)


def test_a_campaign_measures_everything_once_though_a_worker_is_killed(tmp_path: Path) -> None:
    items = [CampaignItem(reference("slow", number), plan=PLAN) for number in range(12)]
    with cluster(tmp_path) as found, Store(tmp_path / "records.sqlite") as store:
        for _ in range(3):
            found.add(module="tests.cluster.behaving_worker")
        remote = settings(address=f"dask:{found.address}")
        found.wait_for(remote.offer, 3)
        seen: list[Progress] = []

        def watch(progress: Progress) -> None:
            if progress.stage == "measured" and not any(each.stage == "measured" for each in seen):
                found.workers[0].send_signal(signal.SIGKILL)
            seen.append(progress)

        report = Campaign(store, remote, items, processes=2, progress=watch).run()

        records = list(store.measurements(platform=report.platform.id))
        assert report.complete
        assert report.failures == {}
        assert Counter(record.reference.key for record in records) == {item.reference.key: 2 for item in items}
        assert seen[-1].done == seen[-1].total == 24
        assert found.workers[0].wait(10) == -signal.SIGKILL


def test_a_file_travels_to_a_worker_as_a_graph(tmp_path: Path) -> None:
    b = GraphBuilder("only_here")
    file = tmp_path / "only_here.onnx"
    file.write_bytes(to_onnx(b.finish(b.relu(b.input((1, 3, 4, 4))))))
    with cluster(tmp_path) as found:
        found.add(module="tests.cluster.behaving_worker")
        remote = settings(address=f"dask:{found.address}")
        found.wait_for(remote.offer, 1)
        with open_measurer(remote, QuietTimesFile(tmp_path / "quiet.json")) as client:
            measured = client.measure([Item(resolve_model(file))], PLAN, lambda item, stage: file.unlink(missing_ok=True))
            ((_, record),) = measured
    assert record.ok, record.error
    assert not file.exists()


def test_a_campaign_that_nobody_can_measure_ends_with_a_reason(tmp_path: Path) -> None:
    with (
        cluster(tmp_path) as found,
        Store(tmp_path / "records.sqlite") as store,
        pytest.raises(ClusterError, match="there is no worker at all"),
    ):
        Campaign(store, settings(address=f"dask:{found.address}"), [CampaignItem(reference(), plan=PLAN)]).run()
