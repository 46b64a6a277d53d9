"""The linear layers of small models in integers, so that the answers are the same bits on every machine.

Products and their sums are whole numbers below 2**53, which float64 represents exactly, in any order of the sum.
The other operations are single operations of IEEE 754, which every machine rounds equally; `np.exp` is none.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.quality.encoder_files import Fault

UNITS = 1 << 10  # a number between two layers is a whole number of 1/UNITS
MOST_UNITS, MOST_INPUTS, MOST_LAYERS = 1 << 20, 1 << 14, 4
LN2, TERMS = 0.6931471805599453, 14  # the terms of the series of e ** x

Array = NDArray[Any]


class Layer(NamedTuple):
    """A layer: whole numbers of 16 bits, (outputs, inputs), as float64; the size of their unit; biases."""

    weight: NDArray[np.float64]
    scale: float
    bias: NDArray[np.float64]


def layers_of(tensors: Mapping[str, Array], inputs: int, outputs: int) -> list[Layer]:
    """Return the layers of the tensors `0.weight` (int16), `0.scale` and `0.bias` (float64), `1.weight` and so on.

    inputs: of the first layer. outputs: of the last. Raises Fault.
    """
    number = len(tensors) // 3
    names = {f"{layer}.{part}" for layer in range(number) for part in ("weight", "scale", "bias")}
    if not 0 < number <= MOST_LAYERS or tensors.keys() != names:
        raise Fault(f"expected the tensors 0.weight, 0.scale and 0.bias, for at most {MOST_LAYERS} layers")
    layers = list[Layer]()
    for layer in range(number):
        weight, scale, bias = (tensors[f"{layer}.{part}"] for part in ("weight", "scale", "bias"))
        rows = outputs if layer == number - 1 else len(bias)
        if inputs > MOST_INPUTS:
            raise Fault(f"{layer}.weight: it has {inputs:,} inputs, expected at most {MOST_INPUTS:,}")
        expect(f"{layer}.weight", weight, np.int16, (rows, inputs))
        expect(f"{layer}.scale", scale, np.float64, (1,))
        expect(f"{layer}.bias", bias, np.float64, (rows,))
        layers.append(Layer(weight.astype(np.float64), float(scale[0]), bias))
        inputs = rows
    return layers


def expect(name: str, tensor: Array, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """Raise Fault unless a tensor has this type and shape, and only finite numbers."""
    if tensor.dtype != kind or tensor.shape != shape or not prod(shape):
        raise Fault(
            f"{name}: expected {np.dtype(kind)} of the shape {list(shape)}, "
            f"got {tensor.dtype} of {list(tensor.shape)}"
        )
    if kind is np.float64 and not (np.abs(tensor) < 1e30).all():
        raise Fault(f"{name}: its numbers are not all finite; train it again")


def outputs_of(layers: Sequence[Layer], numbers: Array) -> NDArray[np.float64]:
    """Return the outputs of layers with ReLU between them: (n, outputs).

    numbers: whole numbers of at most 20 bits, (n, inputs).
    """
    values = numbers.astype(np.float64)
    for number, layer in enumerate(layers):
        if number:
            values = np.minimum(np.rint(np.maximum(values, 0) * UNITS), MOST_UNITS)
        values = (values @ layer.weight.T) * layer.scale + layer.bias
    return values


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of labels: (n, labels)."""
    powers = exp(logits - logits.max(axis=1, initial=-np.inf, keepdims=True)).T
    return (powers / sum(powers[1:], powers[0])).T  # `np.sum` adds in an order of the machine


def exp(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e to the power of numbers of at most 0, as a product of 2 ** k and a series of Taylor."""
    numbers = np.maximum(numbers, -700)
    twos = np.rint(numbers / LN2)
    rest, term = numbers - twos * LN2, np.ones_like(numbers)
    total = term
    for number in range(1, TERMS):
        term = term * rest / number
        total = total + term
    return np.ldexp(total, twos.astype(np.int64))


def quantised(weights: Sequence[tuple[Array, Array]], unit: float) -> dict[str, Array]:
    """Return the tensors of `layers_of` for layers of float numbers.

    weights: the weight and bias of each layer. unit: of the whole numbers that the first layer gets.
    """
    tensors = dict[str, Array]()
    for number, (weight, bias) in enumerate(weights):
        scale = max(float(np.abs(weight).max()), 1e-12) / np.iinfo(np.int16).max
        tensors[f"{number}.weight"] = np.rint(weight / scale).astype(np.int16)
        tensors[f"{number}.scale"] = np.array([scale * (1 / UNITS if number else unit)])
        tensors[f"{number}.bias"] = bias.astype(np.float64)
    return tensors
