"""Equal tuning: the same trials for everybody, scores that need no labels, and files that a run takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from watching import Watches

from tempora_tta import data, methods, models
from tempora_tta.analysis import winners_of
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.cli import app
from tempora_tta.config import MethodConfig, TunedConfig
from tempora_tta.engine import Run
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.method_specs import method_specs
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.own_profile import needs
from tempora_tta.engine.tuning import (
    LABEL_FREE,
    SELECTORS,
    Trial,
    Tuned,
    atc_threshold,
    label_free,
    one_pass,
    plan,
    searched,
    trials,
    write_methods,
)
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Offline
from tempora_tta.store import RunFolder, open_run


@pytest.fixture(scope="module")
def network() -> models.Classifier:
    return models.load("fashion_resnet")


def test_trials_begin_with_the_default_are_distinct_and_more_contain_fewer(network) -> None:
    settings = methods.create("tent", network, recipe=False).settings
    few, many = list(trials(settings, 4)), list(trials(settings, 16))
    assert few[0] == {}
    assert many[:4] == few
    rates = [trial["lr"] for trial in many[1:]]
    assert len(set(rates)) == 15
    assert min(rates) >= settings.lr / 30 * 0.99
    assert max(rates) <= settings.lr * 30 * 1.01
    assert sum(rate < settings.lr for rate in rates) in (7, 8), "as many below the default as above"
    assert list(trials(methods.create("standard", network).settings, 8)) == [{}], "nothing to tune"


@pytest.mark.parametrize("name", ["tent", "sar", "cmf", "lame", "t3a", "alpha_bn"])
def test_every_trial_is_a_setting_that_the_method_takes(name: str, network) -> None:
    settings = methods.create(name, network, recipe=False).settings
    assert searched(settings)
    for trial in trials(settings, 12):
        methods.create(name, network, recipe=False, **trial)


def test_methods_that_look_at_the_clock_are_told_that_none_runs(network) -> None:
    (shift,) = data.open("fashion", shifts="contrast").values()
    stream = data.open_stream(shift, network.preprocessing, batch_size=8, limit_batches=2, workers=0)
    accuracy, scores = one_pass(methods.create("pace", network), stream, threshold=0.5)
    assert 0 <= accuracy <= 1
    assert set(scores) == set(LABEL_FREE)


def test_mutual_information_sees_a_collapse_that_sureness_takes_for_success() -> None:
    collapsed = np.tile([0.98, 0.01, 0.01], (300, 1))
    good = np.repeat(np.eye(3) * 0.85 + 0.05, 100, axis=0)
    fallen, sound = label_free(collapsed, 0.95), label_free(good, 0.95)
    assert sound["mutual_information"] > fallen["mutual_information"]
    assert sound["confidence"] < fallen["confidence"]
    assert sound["entropy"] < fallen["entropy"]
    assert sound["atc"] < fallen["atc"]


@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 2**31))
def test_mutual_information_lies_between_nothing_and_all_classes(
    samples: int, classes: int, seed: int
) -> None:
    chances = np.random.default_rng(seed).dirichlet(np.ones(classes), samples)
    told = label_free(chances)
    assert -1e-9 <= told["mutual_information"] <= np.log(classes) + 1e-9
    assert 1 / classes <= told["confidence"] <= 1


def test_as_many_clean_predictions_are_surer_than_the_threshold_as_are_right(network) -> None:
    (clean,) = data.open("fashion", shifts="clean").values()
    stream = data.open_stream(clean, network.preprocessing, batch_size=50, workers=0)
    threshold = atc_threshold(network, stream, 2)
    standard = methods.create("standard", network)
    last = [stream.num_batches - 2, stream.num_batches - 1]
    scores = torch.cat([standard.predict(stream.batch(index)) for index in last]).double()
    right = (scores.argmax(1).numpy() == np.concatenate([stream.labels(index) for index in last])).mean()
    told = label_free(torch.softmax(scores, 1).numpy(), threshold)
    assert 0 < right < 1
    assert told["atc"] == pytest.approx(right, abs=0.01)


def made(method: str = "tent") -> Tuned:
    """The default, a good trial and a collapse that looks sure of itself."""
    scores = ({"mutual_information": 1.0, "confidence": 0.5, "entropy": -1.0, "atc": 0.3},)
    scores += ({"mutual_information": 1.5, "confidence": 0.7, "entropy": -0.8, "atc": 0.4},)
    scores += ({"mutual_information": 0.1, "confidence": 0.99, "entropy": -0.1, "atc": 0.9},)
    rates, right = (0.001, 0.002, 0.1), (0.6, 0.7, 0.1)
    return Tuned(method, tuple(Trial({"lr": a}, b, c) for a, b, c in zip(rates, right, scores, strict=True)))


def test_regret_is_what_choosing_without_labels_gives_away() -> None:
    tuned = made()
    assert {by: round(tuned.regret(by), 9) for by in SELECTORS} == {
        "labels": 0.0,
        "mutual_information": 0.0,
        "confidence": 0.6,
        "entropy": 0.6,
        "atc": 0.6,
    }


def written(path: Path, by: str = "mutual_information", model: str = "fashion_resnet") -> Path:
    """A file of tempora tune, which looked at fog."""
    write_methods(path, [made()], TunedConfig(by, model, "fashion", ["fog"], 8, 3))
    return path


def test_a_run_takes_the_settings_of_a_tuned_file_and_what_is_given_wins(tmp_path: Path) -> None:
    path = written(tmp_path / "tuned.json")

    def settings(methods: object = None) -> list[dict[str, float]]:
        config = load_config(path, flags={"methods": methods})
        return [dict(spec.settings) for spec in method_specs(config.methods, Observer())]

    assert settings() == [{}, {"lr": 0.002}]
    assert settings("tent,eta") == [{"lr": 0.002}, {}]
    assert settings([{"name": "tent", "label": "mine", "lr": 0.5}]) == [{"lr": 0.5}]


SMALL = {"clock": "published:rn50_inc", "data.shifts": "fog", "batches": 2, "batch_size": 8, "grid": "none"}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory) -> Path:
    """Chosen by labels, on a shift that the run below evaluates."""
    return written(tmp_path_factory.mktemp("oracle") / "oracle.json", "labels")


def test_oracle_settings_keep_their_mark_and_are_neither_ranked_nor_recommended(oracle: Path) -> None:
    job = build_job(load_config(oracle, flags={**SMALL, "methods": ["standard", "adabn", "tent"]}))
    with RunFolder.for_writing(oracle.parent / "run") as folder:
        Run(job, folder).execute()
    run = open_run(oracle.parent / "run")
    table = run.utilities.set_index("method")
    assert table["oracle"].to_dict() == {"standard": False, "adabn": False, "tent (oracle)": True}
    assert pd.isna(table.loc["tent (oracle)", "rank"])
    assert sorted(table["rank"].dropna()) == [1, 2]
    assert set(winners_of(run)["method"]) <= {"standard", "adabn"}
    advice = recommend(run, Question(scenario=Offline()))
    assert set(advice.ranking["method"]) == {"standard", "adabn"}
    assert "tent (oracle)" in advice.left_out
    kept = run.manifest["recipes"]
    assert (kept["select"], kept["oracle"], kept["tuned_on"]) == ("labels", True, ["fog"])
    assert run.manifest["method_settings"]["tent (oracle)"]["settings"] == {"lr": 0.002}
    assert kept["evaluated_too"] == ["fog"]
    shown = CliRunner().invoke(app, ["show", str(run.path)]).output
    assert "Ceilings of tuned settings" in shown
    steady = build_job(load_config(oracle, flags={**SMALL, "clock": "steady"}))
    assert needs(steady, None) == [spec.label for spec in steady.methods], "it is profiled, too"


def test_a_run_on_the_shifts_it_was_tuned_on_is_warned(oracle: Path) -> None:
    heard = {"fog": Watches(), "snow": Watches()}
    for shift, watches in heard.items():
        build_job(load_config(oracle, flags={**SMALL, "data.shifts": shift}), watches)
    told = {shift: any("tuned on fog" in note for note in watches.notes) for shift, watches in heard.items()}
    assert told == {"fog": True, "snow": False}


SHORT = ("tune", "--trials", "2", "--batches", "1", "--batch-size", "8", "--shifts", "spatter")


def tune(*words: object) -> str:
    said = CliRunner().invoke(app, [*SHORT, *map(str, words)])
    if said.exception:
        raise said.exception
    return " ".join(said.output.split())


def built(oracle: Path, **flags: object) -> object:
    return build_job(load_config(oracle, flags={**SMALL, **flags}))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda network, oracle: built(oracle, methods=["tent"]), "standard"),
        (lambda network, oracle: built(oracle, model="fashion_vit"), "fashion_resnet.*fashion_vit"),
        (lambda network, oracle: plan("eata", network, 2), "samples"),
        (lambda network, oracle: plan("eata", network, 2, torch.zeros(4, 1, 28, 28)), "2000.*4"),
        (
            lambda *_: tune("--methods", "tent", "--dataset", "cifar10_c", "--select", "atc"),
            "mutual_information",
        ),
        (lambda network, oracle: tune("--methods", "tent", "--out", oracle.parent), "folder"),
        (lambda network, oracle: tune("--methods", "tent", "--out", oracle / "no" / "r.json"), "folder"),
    ],
)
def test_what_cannot_be_tuned_or_run_says_what_to_do(network, oracle: Path, call, said: str) -> None:
    with pytest.raises(TemporaError, match=said):
        call(network, oracle)


def test_the_command_tunes_and_says_what_it_chose(tmp_path: Path) -> None:
    out = tmp_path / "tuned.json"
    assert "nothing to tune" in tune("--methods", "tent,adabn", "--out", out)
    tent = json.loads(out.read_text())["methods"][1]
    assert (tent["name"], tent["tuned"]["by"]) == ("tent", LABEL_FREE[0])
    assert load_config(out).methods[2] == MethodConfig("adabn")


def test_all_methods_are_those_that_fit_and_need_no_clock(tmp_path: Path) -> None:
    said = tune("--methods", "all", "--trials", "1", "--out", tmp_path / "tuned.json")
    entries = load_config(tmp_path / "tuned.json").methods
    found = {entry.name for entry in entries if not isinstance(entry, str)}
    assert {"tent", "eta", "eata"} <= found
    assert not {"pace", "memo", "cotta"} & found
    assert "left out pace" in said
