"""Predictions made faster than they are timed, where both agree: in another runtime (`predict_with`), and untimed
frozen tails several batches at once.

Under a steady or recorded clock times are looked up, so that a pass may predict as fast as the device can. What it
predicts should be what the timed runtime predicts: for every method and stream that is looked at first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from tempora_tta._global_state import own_randomness
from tempora_tta.data import Stream
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.predictions import classes_of
from tempora_tta.engine.runtime import AMP, COMPILE, EAGER, ONNX, TF32, Runtime
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.guard import Guard
from tempora_tta.store import StoredPass

BATCHES = 5
"""Of a stream, over which both runtimes predict and adapt from the same start."""
LEAST_AGREEMENT = 0.99
"""Share of equal predictions over these batches."""


CLOSE = 1e-3
"""Largest difference of scores over the largest: far above rounding, far below other batch statistics."""


def predictor(job: Job, spec: MethodSpec, stream: Stream) -> tuple[Method, dict[str, Any] | None]:
    """The method that predicts on this stream, and what its passes say about that; None where nothing was asked.

    It is the timed one where the other does not agree with it.
    """
    timed = job.create(spec, stream.seed)
    if job.predict_with == EAGER:
        return timed, None
    quick = job.create(spec, stream.seed, predict_with=job.predict_with)
    count = min(BATCHES, stream.num_batches)
    first, second = (predicted_classes(job, spec, method, stream, count) for method in (timed, quick))
    agreement = float((first == second).float().mean())
    used = agreement >= LEAST_AGREEMENT
    facts = {"runtime": job.predict_with, "agreement": agreement, "batches": count, "used": used}
    return quick if used else timed, facts


def predicted_classes(job: Job, spec: MethodSpec, method: Method, stream: Stream, count: int) -> torch.Tensor:
    """The classes of the first batches, adapting on each; the method is reset before and after."""
    calls = Calls(method, spec.label, stream, job.clock, timeout_s=job.config.method_timeout_s)
    found = []
    with own_randomness(stream.seed):
        calls.reset()
        for index in range(count):
            x = stream.batch(index)
            found.append(classes_of(calls.checked(calls.go_through(x), len(x)), stream))
        calls.reset()
    return torch.from_numpy(np.concatenate(found))


def batches_at_once(method: Method, stream: Stream, wanted: int, guard: Guard) -> int:
    """`wanted`, if the frozen method predicts the stream's first batches together as it does one by one; else 1.

    A stateless method's tail is the Standard pass where sharing is on, which goes batch by batch, so it always
    does. The answer depends on the method's initial state and the stream alone: shared and unshared runs agree.
    """
    wanted = min(wanted, stream.num_batches)
    if wanted == 1 or method.stateless or method.time_aware:
        return 1
    batches = [stream.batch(index) for index in range(wanted)]
    with guard("predict"):
        method.reset()
        method.freeze()
        one_by_one = torch.cat([method.predict(x) for x in batches])
        together = method.predict(torch.cat(batches))
        method.reset()
    same_classes = torch.equal(one_by_one.argmax(1), together.argmax(1))
    close = bool((one_by_one - together).abs().max() <= CLOSE * one_by_one.abs().max())
    return wanted if same_classes and close else 1


def summarised(passes: Iterable[StoredPass]) -> dict[str, Any] | None:
    """Return what run.json says about the runtime of a run's predictions; None where it is the timed one."""
    told = {
        f"{stored.identity['method']} on {stored.identity['shift']}": stored.facts["predict_with"]
        for stored in passes
        if "predict_with" in stored.facts
    }
    if not told:
        return None
    agreements = [facts["agreement"] for facts in told.values()]
    return {
        "runtime": next(iter(told.values()))["runtime"],
        "least_agreement": min(agreements),
        "mean_agreement": sum(agreements) / len(agreements),
        "as_timed": sorted(name for name, facts in told.items() if not facts["used"]),
    }


def check_predict_with(text: str, device: torch.device | None, measured: bool) -> None:
    """Refuse a runtime that cannot be had, or would be timed.

    `device`: None where others predict, who look for themselves.
    """
    runtime = Runtime.parse(text)
    if runtime.parts and measured:
        raise TemporaError(
            f"predict_with={text!r} with the measured clock, which times predictions as they are made: use "
            "--clock steady or a profile's file, or time another runtime with --runtime"
        )
    if {COMPILE, ONNX} & set(runtime.parts):
        raise TemporaError(
            f"predict_with={text!r}: a runtime that may be timed (--runtime); predictions can be made with tf32, "
            "channels_last and amp"
        )
    if device is None:
        return
    if TF32 in runtime.parts and device.type != "cuda":
        raise TemporaError(
            f"predict_with={text!r}: tf32 needs an NVIDIA GPU, and the device is {device.type}"
        )
    if TF32 in runtime.parts and torch.cuda.get_device_capability(device) < (8, 0):
        raise TemporaError(f"predict_with={text!r}: this GPU has no tf32; NVIDIA's Ampere and newer have")
    if AMP in runtime.parts and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        raise TemporaError(f"predict_with={text!r}: this GPU only emulates bfloat16")
