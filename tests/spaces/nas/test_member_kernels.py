"""The kernels of every member of a small space in one table."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import LatcastError
from latcast.kernels.rules import load_rules, shipped_rules
from latcast.kernels.search import find_kernels
from latcast.spaces import kernel_table_files
from latcast.spaces.nas.member_kernels import MemberKernels, keep_table, kernels_of, make_table, shipped_name, table_bytes
from latcast.spaces.nas.segment_kernels import SegmentKernels
from latcast.spaces.nas.supernet import SUPERNETS, Supernet

CELLS = SUPERNETS.get("nas_bench_201")
ON_CPUS = sorted(name for name in shipped_rules() if not load_rules(name).selection)


def small(supernet: Supernet) -> Supernet:
    """The space with two operations an edge, skip or a 1x1 convolution: 64 encodings."""
    [edges] = supernet.dimensions
    return replace(supernet, name="two_operations", dimensions=(replace(edges, choices=(1, 2)),))


def test_all_encodings_and_all_members_of_a_space_are_listed_once() -> None:
    assert len(np.unique(CELLS.all_encodings(), axis=0)) == 15_625
    members = CELLS.all_members()
    assert len(members) == len(np.unique(CELLS.canonical(CELLS.all_encodings()), axis=0)) == 9_445


@pytest.mark.parametrize("name", ON_CPUS)
def test_a_shipped_table_has_the_kernels_that_the_graphs_have(name: str) -> None:
    kernels = kernels_of(CELLS, load_rules(name))
    assert isinstance(kernels, MemberKernels)
    encodings = CELLS.sample_encodings(4, 11)
    table = kernels.segment_table()
    for member, encoding in zip(kernels.lookup(encodings)[0], encodings, strict=True):
        graph = CELLS.build(**CELLS.decode(encoding))
        wanted = Counter(kernel.key for kernel in find_kernels(graph, kernels.rules) if not kernel.free)
        keys = [(kind, tuple(row)) for kind, rows in table.configurations.items() for row in rows.tolist()]
        assert Counter(keys[kernel] for kernel in table.kernel[table.network == member]) == wanted


def test_a_table_says_of_encodings_what_segments_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    space, rules = small(CELLS), load_rules("onnxruntime")
    segments = kernels_of(space, rules)
    assert isinstance(segments, SegmentKernels)
    keep_table(segments)

    table = kernels_of(space, rules)

    assert isinstance(table, MemberKernels)
    encodings = space.sample_encodings(30, 2)
    assert table.sizes(encodings).macs.tolist() == segments.sizes(encodings).macs.tolist()
    assert table.sizes(encodings).parameters.tolist() == segments.sizes(encodings).parameters.tolist()
    estimated = [
        found.sum_by_network(np.concatenate([rows @ np.arange(1, rows.shape[1] + 1) for rows in found.configurations.values()]))
        for found in (table.segment_table(), segments.table(encodings))
    ]
    assert estimated[0][table.lookup(encodings)[0]].tolist() == estimated[1].tolist()
    with pytest.raises(LatcastError, match="indices of choices"):
        table.lookup(np.full((1, 6), 9))


def test_a_table_that_does_not_fit_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    space, rules = small(CELLS), load_rules("none")
    content = table_bytes(make_table(SegmentKernels(space, rules)))
    path = tmp_path / "cache" / "tables" / shipped_name(space, rules)
    path.parent.mkdir(parents=True)
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    other_fields = io.BytesIO()
    np.savez_compressed(other_fields, **{**arrays, "fields": np.array('{"conv": ["a"]}')})
    for damaged in (b"", content[:-200], b"PK\x03\x04", other_fields.getvalue()):
        path.write_bytes(damaged)
        assert isinstance(kernels_of(space, rules), SegmentKernels)
    other_kernels = io.BytesIO()
    np.savez_compressed(other_kernels, **{**arrays, "counts": arrays["counts"] + 1})
    path.write_bytes(other_kernels.getvalue())
    assert isinstance(kernels_of(space, rules), SegmentKernels)
    path.write_bytes(content)
    assert isinstance(kernels_of(space, rules), MemberKernels)


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(kernel_table_files, "cache_folder", lambda: tmp_path / "file")
    space = small(CELLS)
    keep_table(SegmentKernels(space, load_rules("none")))
    assert isinstance(kernels_of(space, load_rules("none")), SegmentKernels)
