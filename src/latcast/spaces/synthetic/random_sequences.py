"""Random networks of recurrent layers, from which a predictor learns what a step of an LSTM, a GRU or an RNN takes.

A network is a chain of layers on a sequence (steps, 1, features), as models of speech, text and control have them. Three in ten
have a single step, as those have that keep their state between calls; in the others later layers may see a part of the steps.
"""

from __future__ import annotations

from random import Random

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.kernels.types.recurrent import CELLS, recurrent
from latcast.spaces.families.variants import DrawnSpace
from latcast.spaces.synthetic.mixed_blocks import log_uniform

NAME = "random_sequences"
STEPS = (8, 512)
FEATURES = (8, 640)
HIDDEN = (16, 1024)
USUAL_HIDDEN = (24, 32, 48, 64, 64, 96, 128, 128, 192, 256, 256, 320, 384, 512, 512, 640, 768, 1024)
"""Sizes that models have; the others are drawn evenly in logarithms."""
USUAL_SHARE = 0.6
MOST_WEIGHTS = 6e6
"""Weights of a layer."""
MOST_LAYER_MACS = 100e6
MOST_MACS = 300e6
LENGTHS = (3, 10)
SINGLE_STEP_SHARE = 0.3
CELL_WEIGHTS = (1, 5, 1.5, 3)
"""Frequencies of :data:`latcast.kernels.types.recurrent.CELLS`: models have more LSTMs than GRUs."""


def build(seed: int) -> Graph:
    """Build the network of a seed."""
    rng = Random(f"{NAME}/{seed}")
    b = GraphBuilder(f"{NAME}-{seed}")
    steps = 1 if rng.random() < SINGLE_STEP_SHARE else round(log_uniform(rng, *STEPS))
    x = b.input((steps, 1, round(log_uniform(rng, *FEATURES))))
    for _ in range(rng.randint(*LENGTHS)):
        steps, _, features = b.shape(x)
        if steps > 2 and rng.random() < 0.4:
            steps = max(round(steps / log_uniform(rng, 1.5, 8.0)), 2)
            (x,) = b.op("Slice", [x, *(b.constant([value], dtype="int64") for value in (0, steps, 0))])
        if rng.random() < 0.4 or features > FEATURES[1]:
            features = round(log_uniform(rng, *FEATURES))
            x = b.linear(x, features)
        (cell,) = rng.choices(range(len(CELLS)), CELL_WEIGHTS)
        directions = rng.choice((1, 1, 2))
        hidden = rng.choice(USUAL_HIDDEN) if rng.random() < USUAL_SHARE else round(log_uniform(rng, *HIDDEN))
        while 4 * directions * hidden * (hidden + features) > min(MOST_WEIGHTS, MOST_LAYER_MACS / steps) and hidden > HIDDEN[0]:
            hidden //= 2
        states = recurrent(b, x, hidden, directions, cell)
        x = b.reshape(b.transpose(states, (0, 2, 1, 3)), (steps, 1, directions * hidden))
    return b.finish(b.linear(x, 10))


SPACE = DrawnSpace(NAME, build, lambda rng: {"seed": rng.getrandbits(32)}, lambda graph: graph_macs(graph) <= MOST_MACS)
