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
from tempora_tta.report.html.page import render
from tempora_tta.scenarios import Offline
from tempora_tta.store import Results, RunFolder, open_run


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


@pytest.mark.parametrize("name", ["tent", "sar", "cmf", "lame", "t3a", "alpha_bn"])
def test_every_trial_is_a_setting_that_the_method_takes(name: str, network) -> None:
    settings = methods.create(name, network, recipe=False).settings
    assert searched(settings)
    for trial in trials(settings, 12):
        methods.create(name, network, recipe=False, **trial)


def test_a_method_with_nothing_to_tune_has_its_default_alone(network) -> None:
    assert list(trials(methods.create("standard", network).settings, 8)) == [{}]


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


def test_a_method_that_asks_for_source_images_gets_them(network) -> None:
    source = torch.zeros(4, 1, 28, 28)
    with pytest.raises(TemporaError, match="clean unlabelled samples"):
        plan("eata", network, 2)
    with pytest.raises(TemporaError, match="needs 2000 clean samples"):
        plan("eata", network, 2, source)


def test_the_threshold_wants_labelled_clean_images(tmp_path: Path) -> None:
    words = ["tune", "--methods", "tent", "--dataset", "cifar10_c", "--select", "atc"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code != 0
    assert "use mutual_information" in " ".join(str(said.exception or said.output).split())


def test_predictions_that_are_no_numbers_are_never_chosen() -> None:
    broken = label_free(np.full((2, 2), np.nan), 0.5)
    assert set(broken) == set(LABEL_FREE)
    assert all(score == -np.inf for score in broken.values())


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


@pytest.fixture
def oracle(tmp_path: Path) -> Path:
    """Chosen by labels, on a shift that the run below evaluates."""
    return written(tmp_path / "oracle.json", "labels")


class Listening(Observer):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, text: str) -> None:
        self.heard.append(text)


SMALL = {"clock": "published:rn50_inc", "data.shifts": "fog", "batches": 2, "batch_size": 8, "grid": "none"}


@pytest.fixture(scope="module")
def oracle_run(tmp_path_factory) -> Results:
    place = tmp_path_factory.mktemp("oracle")
    flags = {**SMALL, "methods": ["standard", "adabn", "tent"]}
    job = build_job(load_config(written(place / "oracle.json", "labels"), flags=flags))
    with RunFolder.for_writing(place / "run") as folder:
        Run(job, folder).execute()
    return open_run(place / "run")


def test_oracle_settings_keep_their_mark_and_are_neither_ranked_nor_recommended(oracle_run: Results) -> None:
    table = oracle_run.utilities.set_index("method")
    assert bool(table.loc["tent (oracle)", "oracle"])
    assert pd.isna(table.loc["tent (oracle)", "rank"])
    assert not table.loc["standard", "oracle"]
    assert sorted(table["rank"].dropna()) == [1, 2]
    assert set(winners_of(oracle_run)["method"]) <= {"standard", "adabn"}
    advice = recommend(oracle_run, Question(scenario=Offline()))
    assert set(advice.ranking["method"]) == {"standard", "adabn"}
    assert "tent (oracle)" in advice.left_out
    kept = oracle_run.manifest["recipes"]
    assert (kept["select"], kept["oracle"], kept["tuned_on"]) == ("labels", True, ["fog"])
    assert oracle_run.manifest["method_settings"]["tent (oracle)"]["settings"] == {"lr": 0.002}
    assert kept["evaluated_too"] == ["fog"]


def test_oracle_settings_are_marked_where_people_look(oracle_run: Results) -> None:
    shown = " ".join(CliRunner().invoke(app, ["show", str(oracle_run.path)]).output.split())
    assert "Ceilings of tuned settings" in shown
    assert "a ceiling, neither ranked nor recommended" in shown
    assert "tuned (by labels) on fog, which is evaluated here" in shown
    page = render(oracle_run)
    assert "Ceilings of tuned settings" in page
    assert "Tent (oracle)" in page
    assert "a ceiling, neither ranked nor recommended" in page


def test_a_run_on_the_shifts_it_was_tuned_on_is_warned(oracle: Path) -> None:
    heard = Listening()
    build_job(load_config(oracle, flags=SMALL), heard)
    assert any("tuned on fog, which this run evaluates" in note for note in heard.heard)
    heard.heard.clear()
    build_job(load_config(oracle, flags={**SMALL, "data.shifts": "snow"}), heard)
    assert not any("which this run evaluates" in note for note in heard.heard)


def test_a_run_of_oracles_alone_says_what_it_lacks(oracle: Path) -> None:
    with pytest.raises(TemporaError, match="add what it stands above, such as standard"):
        build_job(load_config(oracle, flags={**SMALL, "methods": ["tent"]}))


def test_an_oracle_is_profiled_where_this_machine_gives_the_times(oracle: Path) -> None:
    job = build_job(load_config(oracle, flags={**SMALL, "clock": "steady"}))
    assert needs(job, None) == [spec.label for spec in job.methods]


def test_settings_of_another_network_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "tuned.json")
    with pytest.raises(TemporaError, match="tuned on fashion_resnet, this run has fashion_vit"):
        build_job(load_config(path, flags={**SMALL, "model": "fashion_vit"}))


def test_a_place_that_cannot_be_written_is_said_before_any_trial(tmp_path: Path) -> None:
    words = ["tune", "--methods", "tent", "--trials", "2", "--batches", "1", "--batch-size", "8"]
    for place, said in ((tmp_path, "is a folder"), (tmp_path / "nowhere" / "r.json", "there is no folder")):
        told = CliRunner().invoke(app, [*words, "--out", str(place)])
        assert isinstance(told.exception, TemporaError) or told.exit_code == 1
        assert said in " ".join(f"{told.exception} {told.output}".split())
        assert "trial" not in told.output


def test_all_methods_are_those_that_fit_and_need_no_clock(tmp_path: Path) -> None:
    out = tmp_path / "tuned.json"
    words = ["tune", "--methods", "all", "--trials", "1", "--batches", "1", "--batch-size", "8"]
    said = CliRunner().invoke(app, [*words, "--shifts", "spatter", "--out", str(out)])
    assert said.exit_code == 0, said.output
    found = {entry.name for entry in load_config(out).methods if not isinstance(entry, str)}
    assert {"tent", "eta", "eata"} <= found
    assert not {"pace", "memo", "cotta"} & found
    assert "left out pace: it decides by the clock" in " ".join(said.output.split())


def test_the_command_tunes_and_says_what_it_chose(tmp_path: Path) -> None:
    out = tmp_path / "recipes.json"
    words = ["tune", "--methods", "tent,adabn", "--trials", "2", "--batches", "1", "--batch-size", "8"]
    said = CliRunner().invoke(app, [*words, "--shifts", "spatter", "--out", str(out)])
    assert said.exit_code == 0, said.output
    assert "nothing to tune" in said.output
    tent = json.loads(out.read_text())["methods"][1]
    assert tent["name"] == "tent"
    assert tent["tuned"]["by"] == LABEL_FREE[0]
    assert load_config(out).methods[2] == MethodConfig("adabn")
