# %% [markdown]
# # Prune a network until it fits
#
# Channels of a trained PyTorch network go, sixteen at a time, from the layer where a millisecond costs the least
# accuracy (the greedy loop of NetAdapt), until the *upper end* of the predicted interval is within the limit.
# The data are made here: eight directions of a texture under noise. With `pip install 'latcast[torch,plots]'`.

# %%
import torch
from torch import nn

import latcast
from latcast import drawing

PHONE, LIMIT_MS = "pixel4/tflite-2.10/1large/fp32", 1.8
torch.manual_seed(0)
torch.set_num_threads(1)


def textures(count):
    kind = torch.randint(8, (count,))
    along = torch.arange(40.0)
    angle = (kind * torch.pi / 8)[:, None, None]
    wave = torch.cos(angle) * along[:, None] + torch.sin(angle) * along[None, :]
    clean = torch.sin(0.8 * wave + 6.3 * torch.rand(count, 1, 1))
    return clean[:, None] + 6.0 * torch.randn(count, 3, 40, 40), kind


def network(widths):
    layers, before = [], 3
    for place, width in enumerate(widths):
        layers += [nn.Conv2d(before, width, 3, 1 + place % 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 8))


def trained(model, batches):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(batches):
        images, kinds = textures(32)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model.train()(images), kinds).backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model, images, kinds):
    return (model(images).argmax(1) == kinds).float().mean().item()


def narrowed(model, place, width):
    """Return the network with the filters of one layer that have the largest weights; the others' weights are gone."""
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    widths = [layer.out_channels for layer in convolutions]
    kept = convolutions[place].weight.abs().sum((1, 2, 3)).topk(width).indices
    smaller = network([*widths[:place], width, *widths[place + 1 :]]).eval()
    last = place == len(widths) - 1
    state = {}
    for name, values in model.state_dict().items():
        layer = int(name.split(".")[0])
        if layer in (3 * place, 3 * place + 1) and values.dim():
            values = values[kept]
        if layer == (3 * place + 5 if last else 3 * place + 3):
            values = values[:, kept] if values.dim() > 1 else values
        state[name] = values
    smaller.load_state_dict(state)
    return smaller


# %%
latency_ms = latcast.LatencyCallback(PHONE, confident=True, example_inputs=torch.zeros(1, 3, 40, 40))
validation = textures(512)
model = trained(network([32, 48, 64, 96]), 100)
steps = [(latency_ms([model])[0], accuracy(model, *validation), "as designed")]
print(f"{steps[0][0]:.2f} ms at most, accuracy {100 * steps[0][1]:.1f} %")

# %%
while steps[-1][0] > LIMIT_MS:
    widths = [layer.out_channels for layer in model if isinstance(layer, nn.Conv2d)]
    candidates = [narrowed(model, place, width - 16) for place, width in enumerate(widths) if width > 16]
    saved_ms = steps[-1][0] - latency_ms(candidates)
    lost = [steps[-1][1] - accuracy(each, *validation) for each in candidates]
    faster = [index for index in range(len(candidates)) if saved_ms[index] > 0]
    best = min(faster, key=lambda index: lost[index] / saved_ms[index])
    model = trained(candidates[best], 10)
    widths = [layer.out_channels for layer in model if isinstance(layer, nn.Conv2d)]
    steps.append((latency_ms([model])[0], accuracy(model, *validation), " ".join(map(str, widths))))
    print(f"{steps[-1][0]:.2f} ms at most, accuracy {100 * steps[-1][1]:.1f} %, widths {steps[-1][2]}")
assert steps[-1][0] <= LIMIT_MS

# %%
at_most_ms, accuracies, names = zip(*steps, strict=True)
drawing.pareto(at_most_ms, [100 * each for each in accuracies], quality_name="accuracy, %", names=names,
               max_latency_ms=LIMIT_MS, title="pruned step by step", below="upper end of the latency, ms")  # fmt: skip
