"""Runtimes are an axis of a run: they change how a method runs, and nothing around it."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
from latencies import CLOCK
from watching import Watches

from tempora_tta import TemporaError, methods
from tempora_tta.config import RunConfig
from tempora_tta.engine import Job, MethodSpec, Run
from tempora_tta.engine.build import build_job, job_from_python
from tempora_tta.engine.runtime import PARTS, Runtime, compiled_graphs
from tempora_tta.scenarios import Amortised, Discrete
from tempora_tta.store import RunFolder

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="torch.compile needs a C++ compiler and Python's headers",
)


def job(model, batches, *specs: MethodSpec, **options) -> Job:
    scenarios = [Discrete(utilisation=1), Amortised(budget_x=0.05)]
    given = {"device": "cpu", "clock": CLOCK, "seeds": [2025], "warmup_batches": 1}
    return job_from_python(model, batches, specs, scenarios, **{**given, **options})


def variants(*runtimes: str, names=("standard", "lame", "tent")) -> list[MethodSpec]:
    return [MethodSpec(name).under(runtime) for runtime in runtimes for name in names]


@pytest.mark.parametrize("runtime", ["tf32", "channels_last", "amp", "channels_last+amp"])
@pytest.mark.parametrize("name", ["standard", "lame", "tent", "cmf"])
def test_predictions_stay_close_to_eager(network, batches, runtime, name):
    """And equal to the bit where the runtime only moves memory, or has no effect on this device."""
    made = job(network("fashion_resnet"), batches, *variants("eager", runtime, names=[name]))
    eager, other = (made.create(spec, 2025) for spec in made.methods)
    for x, _ in batches[:3]:
        first, second = eager.predict(x), other.predict(x)
        assert eager.adapt() == other.adapt()
        assert second.dtype == torch.float32
        close = {"tf32": 0.0, "channels_last": 1e-3}.get(runtime, 0.15)
        assert (first - second).abs().max() <= close * first.abs().max()


def test_channels_last_weights_and_amp_dtypes_are_really_used(network, batches):
    made = job(network("fashion_resnet"), batches, *variants("channels_last", "amp", names=["tent"]))
    seen = {}
    for runtime, spec in zip(("channels_last", "amp"), made.methods, strict=True):
        method = made.create(spec, 2025)
        second = [m for m in method.model.modules() if isinstance(m, torch.nn.Conv2d)][1]
        second.register_forward_hook(lambda _, given, out, name=runtime: seen.update({name: (given[0], out)}))
        method.predict(batches[0][0])
        method.adapt()
        assert all(t.dtype == torch.float32 and t.isfinite().all() for t in method.trainable.values())
        if runtime == "channels_last":
            assert second.weight.is_contiguous(memory_format=torch.channels_last)
    assert seen["channels_last"][0].is_contiguous(memory_format=torch.channels_last)
    assert seen["amp"][1].dtype == torch.bfloat16


@pytest.mark.parametrize("runtime", ["channels_last", "amp"])
def test_reset_is_exact_in_every_runtime(network, batches, runtime):
    made = job(network("fashion_resnet"), batches, *variants(runtime, names=["tent"]))
    method = made.create(made.methods[0], 2025)
    rounds = []
    for _ in range(2):
        method.reset()
        for x, _ in batches[:3]:
            rounds.append(method.predict(x).clone())
            method.adapt()
    assert all(torch.equal(first, again) for first, again in zip(rounds[:3], rounds[3:], strict=True))
    assert not torch.equal(rounds[0], rounds[1])


def test_variants_are_methods_of_their_own_with_the_same_lambda(network, batches, tmp_path):
    made = job(network("fashion_resnet"), batches, *variants("eager", "amp"))
    with RunFolder.for_writing(tmp_path / "shared") as folder:
        table = Run(made, folder).execute().utilities
    assert set(table["method"]) == {"standard", "lame", "tent", "standard@amp", "lame@amp", "tent@amp"}
    assert (table["status"] == "ok").all()
    assert set(table["baseline_ms"]) == {40.0}
    assert sorted(table.query("scenario == 0")["rank"])[-1] <= 6
    with RunFolder.for_writing(tmp_path / "unshared") as other:
        alone = job(network("fashion_resnet"), batches, *variants("eager", "amp"), share=False)
        unshared = Run(alone, other).execute().utilities
    assert (table["utility"] == unshared["utility"]).all()
    passes = folder.passes()
    frozen = {
        row.method: passes[row.frozen_pass].identity["method"]
        for row in table.itertuples()
        if row.method.startswith("lame") and isinstance(row.frozen_pass, str)
    }
    assert frozen == {"lame": "standard", "lame@amp": "standard@amp"}
    assert {stored.identity.get("runtime") for stored in passes.values()} == {None, "amp"}


def test_a_configuration_names_them_and_hears_what_has_no_effect():
    notes = Watches()
    config = RunConfig(
        methods=["standard", "tent"], runtimes=["eager", "tf32", "amp+tf32"], device="cpu", batches=2
    )
    made = build_job(config, notes)
    assert [spec.label for spec in made.methods] == [
        *("standard", "tent", "standard@tf32", "tent@tf32", "standard@tf32+amp", "tent@tf32+amp")
    ]
    assert "runtime tf32: tf32 has no effect on cpu" in notes.notes
    assert made.standard().label == "standard"


@pytest.mark.slow
@needs_compiler
def test_compiled_methods_predict_and_learn_as_eager_ones_and_reset_exactly(network, batches):
    made = job(network("fashion_resnet"), batches, *variants("compile", "eager", names=["tent"]))
    compiled, eager = (made.create(spec, 2025) for spec in made.methods)
    before, rounds = compiled_graphs(), []
    for _ in range(2):
        compiled.reset()
        eager.reset()
        for x, _ in batches[:3]:
            rounds.append(compiled.predict(x).clone())
            assert (eager.predict(x) - rounds[-1]).abs().max() < 1e-3
            assert compiled.adapt() == eager.adapt() == "step"
    assert compiled_graphs() > before
    assert all(torch.equal(first, again) for first, again in zip(rounds[:3], rounds[3:], strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("runtime", [*PARTS, "tf32+channels_last+amp"])
def test_on_a_gpu(network, batches, runtime):
    model = network("fashion_resnet").to("cuda")
    x = batches[0][0].to("cuda")
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    made = Runtime.parse(runtime)
    eager = methods.create("tent", model)
    other = made.attach(methods.create("tent", made.prepare(model)))
    for _ in range(3):
        first, second = eager.predict(x), other.predict(x)
        assert eager.adapt() == other.adapt() == "step"
        assert (first - second).abs().max() <= 0.15 * first.abs().max()
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize(("text", "said"), [("tf23", "'tf23'.*'tf32'"), ("eager+amp", "eager"), ("", "''")])
def test_wrong_runtimes(text, said):
    with pytest.raises(TemporaError, match=said):
        Runtime.parse(text)
