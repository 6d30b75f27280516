"""The runtime `onnx`: a method's predictions by ONNX Runtime on the CPU, as `tempora export` would make them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.graphs import TOLERANCE, Graph, made_of, need_onnx, state_names, write_graph


class Session(NamedTuple):
    """A graph of the method, in ONNX Runtime."""

    graph: Graph
    runs: Any
    first: dict[str, Tensor]
    """State of the shapes that the graph takes."""


class OnnxPredict:
    """Predicts in place of a method. Its state stays where it keeps it, so that it is saved and reset as ever.

    Graphs are made at the first batch of each size, which belongs to the warm-up, and are refused unless they answer
    it as the method does.
    """

    def __init__(self, method: Method) -> None:
        need_onnx("the runtime onnx")
        if method.model.device.type != "cpu":
            raise TemporaError(
                f"runtime onnx: it runs on the CPU, not on {method.model.device}: --device cpu"
            )
        if type(method).adapt is not Method.adapt or method.time_aware or method.trainable:
            raise TemporaError(
                f"runtime onnx: {method.name} learns after its answer, which is no graph: it takes standard, neo and "
                "adabn; run the others in eager"
            )
        self.method, self.names = method, state_names(method)
        self.plain = method.predict
        self._sessions: dict[tuple[torch.Size, bool], Session] = {}

    def __call__(self, x: Tensor) -> Tensor:
        if (x.shape, self.method.frozen) not in self._sessions:
            self._make(x)
        return self._run(self._sessions[x.shape, self.method.frozen], x)

    def _run(self, session: Session, x: Tensor) -> Tensor:
        places = list(session.graph.places())
        state = {
            name: place[key].expand(shaped.shape).numpy()
            for (name, shaped), (place, key) in zip(session.first.items(), places, strict=True)
        }
        given = {"images": x.numpy(), **state}
        scores, *after = session.runs.run(
            None, {one.name: given[one.name] for one in session.runs.get_inputs()}
        )
        for (place, key), value in zip(
            places, map(torch.from_numpy, after), strict=False
        ):  # none: it is frozen
            if place[key].shape == value.shape:
                place[key].copy_(value)
            else:
                place[key] = value
        return torch.from_numpy(scores)

    def _make(self, x: Tensor) -> None:
        """Make the graphs of this size, learning and frozen."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        before, attached = self.method.snapshot(), vars(self.method).pop("predict", None)
        try:
            self.method.unfreeze()
            with made_of(self.method):
                first = Graph(self.method, self.names).first(x)
            for frozen in (False, True):
                self.method.freeze() if frozen else self.method.unfreeze()
                graph = Graph(self.method, self.names, changes=not frozen)
                with made_of(self.method), tempfile.TemporaryDirectory() as folder:
                    write_graph(graph, x, first, Path(folder, "method.onnx"))
                    runs = onnxruntime.InferenceSession(
                        Path(folder, "method.onnx"), options, providers=["CPUExecutionProvider"]
                    )
                session = self._sessions[x.shape, frozen] = Session(graph, runs, first)
                self._hold_to_the_method(session, x)
        finally:
            self.method.restore(before)
            if attached is not None:
                vars(self.method)["predict"] = attached

    def _hold_to_the_method(self, session: Session, x: Tensor) -> None:
        before = self.method.snapshot()
        theirs = self._run(session, x)
        self.method.restore(before)
        ours = self.plain(x)
        self.method.restore(before)
        apart = float((ours - theirs).abs().max() / ours.abs().max())
        if not (apart <= TOLERANCE and ours.argmax(dim=1).equal(theirs.argmax(dim=1))):
            raise TemporaError(
                f"runtime onnx: scores of the graph of {self.method.name} differ from its own by {apart:.1g} of the "
                f"largest (allowed: {TOLERANCE:g}, and the same classes); run it in eager"
            )
