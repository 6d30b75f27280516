"""Does a ranking depend on tuning? Default, label-free and oracle settings of every method on the bundled benchmark.

    python benchmarks/tuning.py --model fashion_resnet --json benchmarks/results/tuning-fashion_resnet.json

Tuned on corruptions outside the fifteen, the same number of trials for every method; evaluated offline on others.
Accuracies depend on no clock, so any machine will do; how long it takes is printed and not kept.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import torch
import typer

from common import JsonFile, console, write
from tempora import data, methods, models
from tempora.data import Stream, bundled, open_stream
from tempora.engine.tuning import COLLAPSED, LABEL_FREE, LABELS, MUTUAL_INFORMATION, Tuned, one_pass, tune
from tempora.errors import TemporaError
from tempora.names import METHODS

EVALUATED = ("gaussian_noise", "motion_blur", "frost", "contrast")
LEFT_OUT = ("cotta", "foa", "memo", "eata")
"""Tens of times Standard's time, or in need of source images."""


def streams_of(names: tuple[str, ...], model: models.Classifier, batches: int) -> list[Stream]:
    opened = data.open("fashion", shifts=list(names))
    return [
        open_stream(shift, model.preprocessing, limit_batches=batches, workers=0) for shift in opened.values()
    ]


def accuracy(name: str, settings: dict[str, Any], model: models.Classifier, streams: list[Stream]) -> float:
    method = methods.create(name, model, recipe=False, **settings)
    return float(np.mean([one_pass(method, stream)[0] for stream in streams]))


def row_of(tuned: Tuned, model: models.Classifier, evaluated: list[Stream]) -> dict[str, Any]:
    """One method: what each way of choosing chose, and what that gives on shifts that nobody tuned on."""
    ways = {"default": tuned.default, **{by: tuned.chosen(by) for by in (LABELS, *LABEL_FREE)}}
    known: dict[str, float] = {}
    told: dict[str, Any] = {"method": tuned.method, "trials": len(tuned.trials)}
    for way, trial in ways.items():
        key = json.dumps(trial.settings, sort_keys=True)
        if key not in known:
            known[key] = accuracy(tuned.method, trial.settings, model, evaluated)
        told[way] = {"settings": trial.settings, "tuned_on": trial.accuracy, "evaluated": known[key]}
    return told | {"worst_trial": min(trial.accuracy for trial in tuned.trials)}


def main(
    model: Annotated[str, typer.Option(help="One of the bundled networks.")] = "fashion_resnet",
    trials: Annotated[int, typer.Option(help="Per method.")] = 8,
    batches: Annotated[int, typer.Option(help="Of each shift, to tune and to evaluate on.")] = 12,
    json_: JsonFile = None,
) -> None:
    torch.set_num_threads(1)
    network = models.load(model)
    tuning, evaluated = (streams_of(names, network, batches) for names in (bundled.TUNING, EVALUATED))
    rows = []
    for name in METHODS:
        kind = methods.get(name)
        if name in LEFT_OUT or kind.time_aware:
            continue
        try:
            tuned = tune(name, network, tuning, trials)
        except TemporaError as error:  # it does not fit this network
            console.print(f"{name}: left out, {error}")
            continue
        rows.append(row_of(tuned, network, evaluated))
        console.print(f"{name}: {100 * rows[-1]['default']['evaluated']:.1f} %")
        write(
            {
                "model": model,
                "trials": trials,
                "batches": batches,
                "tuned_on": list(bundled.TUNING),
                "evaluated_on": list(EVALUATED),
                "collapsed_below_standard": COLLAPSED,
                "selected_by": MUTUAL_INFORMATION,
                "rows": rows,
            },
            json_,
        )


if __name__ == "__main__":
    typer.run(main)
