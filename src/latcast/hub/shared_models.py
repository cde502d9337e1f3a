"""Models whose users asked for a link to them: shapes without names and weights, found by the hash of the shapes."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlalchemy import func, select

from latcast.environment import utc_now
from latcast.errors import HubError
from latcast.graph.compact import pack, with_derived_names
from latcast.graph.ir import Graph
from latcast.hub.schema import SharedModelRow
from latcast.hub.tokens import TokenStore

MAX_GRAPH_BYTES = 200_000
"""Size of a packed graph in bytes; the largest that latcast ships takes 21 kB."""

MAX_SHARED = 20_000
"""Models that are kept; the one shared first goes when there are more."""

_KEY = re.compile(r"[0-9a-f]{16}")


def packed_shapes(graph: Graph) -> bytes:
    """Return a graph as it is shared, packed and without any name of its user.

    Raises:
        HubError: It is larger than what is kept.
        ModelError: It cannot be packed.
    """
    renamed = graph.renamed({name: f"input_{index}" for index, name in enumerate(graph.inputs)})
    nodes = tuple(replace(node, name=f"{node.op_type.lower()}_{index}") for index, node in enumerate(renamed.nodes))
    found = pack(with_derived_names(replace(renamed, name="model", nodes=nodes)))
    if len(found) > MAX_GRAPH_BYTES:
        raise HubError(f"the model's shapes take {len(found)} bytes, expected at most {MAX_GRAPH_BYTES}; share a smaller model")
    return found


class SharedModelStore(TokenStore):
    """A store that keeps the shapes of models, where their users want it."""

    def share_model(self, key: str, graph: bytes) -> None:
        """Keep a packed graph under the hash of its shapes; the same one again changes nothing."""
        with self._writing("share a model in") as session:
            if session.get(SharedModelRow, key) is not None:
                return
            session.add(SharedModelRow(key=key, graph=graph, shared_at=utc_now()))
            session.flush()
            surplus = (session.scalar(select(func.count(SharedModelRow.key))) or 0) - MAX_SHARED
            if surplus > 0:
                for row in session.scalars(select(SharedModelRow).order_by(SharedModelRow.shared_at).limit(surplus)):
                    session.delete(row)

    def shared_model(self, key: str) -> bytes | None:
        """Return the packed graph under a hash; None where there is none."""
        with self._reading() as session:
            row = session.get(SharedModelRow, key) if _KEY.fullmatch(key) else None
            return None if row is None else row.graph

    def remove_shared_model(self, key: str) -> None:
        """Forget a shared model.

        Raises:
            HubError: There is none under this hash.
        """
        with self._writing("remove a model from") as session:
            row = session.get(SharedModelRow, key) if _KEY.fullmatch(key) else None
            if row is None:
                raise HubError(f"no shared model has the key '{key[:40]}'; it is the end of its link")
            session.delete(row)
