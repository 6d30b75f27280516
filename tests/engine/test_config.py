"""The configuration: strict, with suggestions and line numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import yaml
from latencies import CLOCK
from PIL import Image

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.config import RunConfig, checked, template
from tempora_tta.engine import Run
from tempora_tta.engine.audit import audit
from tempora_tta.engine.build import build_job, scenarios_of
from tempora_tta.engine.images import source_images
from tempora_tta.engine.load_config import load_config
from tempora_tta.models import load
from tempora_tta.scenarios import GRIDS, Discrete, Recorded, grid
from tempora_tta.store import RunFolder

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))


def test_the_template_is_the_defaults_and_says_what_each_key_is_for(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(template())
    assert load_config(path) == RunConfig()
    lines = [line.strip() for line in template().splitlines()]
    for line, above in zip(lines[1:], lines, strict=False):
        if line and not line.startswith("#") and line != "data:":
            assert above.startswith("# "), f"{line} has no comment above it"


def test_overrides_and_flags(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: fashion_vit\nbatches: 5\n")
    config = load_config(
        path, ["data.severity=3", "seeds=[1, 2]"], {"batches": 7, "data.shifts": "noise,fog"}
    )
    assert (config.model, config.data.severity, config.seeds, config.batches) == ("fashion_vit", 3, [1, 2], 7)
    assert config.data.shifts == ["noise", "fog"]


def test_no_limit_survives_run_json():
    config = load_config(None, flags={"scenarios": [{"protocol": "amortised", "budget_ms": float("inf")}]})
    stored = json.loads(json.dumps(config.plain()))
    assert checked(stored) == config


@pytest.mark.parametrize("name", GRIDS)
def test_every_grid_is_a_grid_of_a_run(name):
    assert scenarios_of(load_config(None, flags={"grid": name})) == grid(name)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configurations_are_valid(path):
    config = load_config(path)
    assert config.data.root is None, "where the data lies is the user's to say"
    assert scenarios_of(config)


def test_the_papers_setups_have_the_papers_sizes():
    """Temporal evaluations per method: scenarios times shifts."""
    sizes = {"resnet50-imagenet-c": 240, "vit-imagenet-c": 225, "resnet18-cifar10-c": 135}
    for name, expected in sizes.items():
        config = yaml.safe_load((CONFIGS[0].parent / f"{name}.yaml").read_text())
        grid = scenarios_of(checked(config))
        assert len(grid) * 15 == expected, name


def test_recorded_arrivals_come_from_files_and_functions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("0, 15 # two at once\n15\n40.5\n")
    (tmp_path / "my_log.py").write_text("def times():\n    return range(0, 40, 10)\n")
    specs = [
        {"protocol": "deployment", "arrivals": {"recorded": name}} for name in ("log.csv", "my_log:times")
    ]
    found = scenarios_of(load_config(None, flags={"grid": "none", "scenarios": specs}))
    assert [scenario.arrivals for scenario in found] == [
        Recorded([0, 15, 15, 40.5]),
        Recorded([0, 10, 20, 30]),
    ]


@pytest.mark.parametrize(
    "given", [{}, {"stream": "continual"}, {"stream": {"kind": "mixed", "order": "numpy"}}]
)
def test_the_papers_preset_is_one_word_for_its_keys_and_what_is_given_wins(given):
    preset = checked({"preset": "paper", **given})
    kind = given.get("stream", "single")
    assert preset.stream == {"order": "torch", **({"kind": kind} if isinstance(kind, str) else kind)}
    assert preset.rule == "overshoot"
    assert checked({"preset": "paper", "rule": "strict", "stream": None}).stream is None
    assert checked({"preset": "paper", "rule": "strict"}).rule == "strict"
    assert checked(preset.plain()) == preset


def test_a_run_may_prepare_images_otherwise_than_its_network_does():
    own, given = (
        build_job(checked({"methods": "standard", "clock": CLOCK, "batches": 2, "preprocessing": one}))
        for one in (None, {"crop_pct": 0.5, "interpolation": "nearest", "mean": [0.25]})
    )
    assert given.model.preprocessing == dataclasses.replace(
        own.model.preprocessing, crop_pct=0.5, interpolation="nearest", mean=(0.25,)
    )
    assert "56 (nearest)" in given.notes[0]
    first, second = (job.identity(job.methods[0], job.streams[0], "offline") for job in (own, given))
    assert first.items() < second.items()
    with pytest.raises(TemporaError, match=r"std=\[0.2, 0.3\].*1 channel"):
        build_job(checked({"preprocessing": {"std": [0.2, 0.3]}}))
    papers = {name: load_config(CONFIGS[0].parent / f"vit-imagenet-{name}.yaml") for name in ("c", "r", "v2")}
    assert papers["c"].preparation() == {}, "its images come cropped"
    assert papers["r"].preparation() == papers["v2"].preparation() != {}


def discrete(setting: str, protocol: str = "discrete") -> str:
    return f"scenarios:\n - protocol: {protocol}\n   {setting}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("source:\n  dataset: cifar10\n  sample: 3\n", r"'source.sample'.*'samples'"),
        ("source:\n  samples: 3\n", "source.dataset"),
        ("modle: x\n", r"'modle' \(line 1 of .*run.yaml.*'model'"),
        ("model: x\ndata:\n  severty: 3\n", r"'data.severty' \(line 3.*'severity'"),
        ("model: x\n\nbatch_size: many\n", r"batch_size='many' \(line 3"),
        ("seeds: []\n", r"seeds=\[\] \(line 1"),
        ("data: {severity: 9}\n", r"data.severity=9 \(line 1"),
        ("grid: papr\n", "grid='papr'"),
        ("methods:\n - tent\n - {label: x}\n", r"methods.1.name.*line 3"),
        ("- a\n- b\n", "keys and values"),
        ("a: [\n", "YAML"),
        ("batches: 2024-13-45\n", "YAML.*month"),
        ("batches: 3\nmodel: x\nbatches: 4\n", "batches.*line 1.*line 3"),
        ("model: &again [*again]\n", "aliases"),
        ("batch_size: yes\n", "batch_size=True"),
        ("seeds: [1, off]\n", r"seeds\.1=False"),
        ("seeds: [-1]\n", r"seeds=\[-1\].*0 to 2\^63 - 1"),
        ("seeds: [1, 1]\n", r"seeds=\[1, 1\].*once"),
        ("checkpoint: 7\n", r"checkpoint=7 \(line 1.*path"),
        (discrete("utilization: 1"), r"scenarios\[0\] \(line 3.*'utilization'.*'utilisation'"),
        (discrete("interval_ms: -5"), r"\(line 3.*interval_ms=-5"),
        (discrete("budget_x: 1\n   rule: lax", "amortised"), r"\(line 4.*'lax'"),
        ("scenarios:\n - interval_ms: 5\n   protocol: discreet\n", r"\(line 3.*'discrete'"),
        ("scenarios:\n - {protocol: offline}\n - {interval_ms: 5}\n", r"scenarios\[1\] \(line 3.*protocol"),
        (discrete("arrivals: {recorded: nowhere.csv}", "deployment"), r"scenarios\[0\].*nowhere.csv"),
        (discrete("arrivals: {recorded: words.txt}", "deployment"), "'soon'"),
        (discrete("arrivals: {recorded: 'no_such_module:times'}", "deployment"), "'no_such_module'"),
        (discrete("arrivals: {poisson: {utilisation: -1}}", "deployment"), "utilisation=-1.* 0"),
        ("methods:\n - neo\n - name: eta\n   margins: 1\n", r"methods\[1\] \(line 4.*'margins'.*'margin'"),
        ("methods:\n - {name: tent, learning_rate: 1}\n", r"\(line 2.*'learning_rate'.*lr"),
        ("methods:\n - name: tent\n   lr: fast\n", r"\(line 3.*tent: lr='fast'.*number"),
        ("methods:\n - neo\n - tnet\n", r"methods\[1\] \(line 3.*'tnet'.*'tent'"),
        ("stream: circular\n", r"stream \(line 1.*'circular'"),
        ("seeds: [1]\nstream: {kind: continual, reset: 0}\n", r"stream \(line 2.*reset=0"),
        ("stream: [continual]\n", "stream"),
        ("stream: {kind: continual, classes: {dirichlet: many}}\n", "dirichlet='many'"),
    ],
)
def test_mistakes_point_at_their_line(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("0\nsoon\n")
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(TemporaError, match=said):
        load_config(tmp_path / "run.yaml")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("severity", "key=value"),
        ("methods=[tnet]", "'tnet'"),
        ("batch_size=many", "many"),
        ("data.severity=9", "9"),
        ("scenarios=[{protocol: [discrete]}]", r"scenarios\[0\]"),
    ],
)
def test_what_the_command_line_gave_is_on_no_line(tmp_path, override, said):
    path = tmp_path / "run.yaml"
    path.write_text("methods:\n - tent\nbatch_size: 8\ndata:\n  severity: 3\n")
    with pytest.raises(TemporaError, match=said) as raised:
        load_config(path, [override])
    assert "(line" not in str(raised.value)


def test_source_samples_are_drawn_from_another_dataset_than_the_stream_s(tmp_path):
    model = load("fashion_resnet")
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for index in range(3):
            Image.new("L", (28, 28), 40 * index + 20).save(tmp_path / label / f"{index}.png")
    (tmp_path / "classes.txt").write_text("a\nb\n")
    options = ["source.dataset=folder", f"source.root={tmp_path}"]
    assert source_images(load_config(None, [*options, "source.samples=5"]), model).shape == (5, 1, 28, 28)
    assert source_images(load_config(None, ["data.dataset=imagenet_c"]), model) is None
    for wrong, said in (([*options, "source.samples=7"], "7.*6"), (["source.dataset=fashion"], "fashion")):
        with pytest.raises(TemporaError, match=said):
            source_images(load_config(None, wrong), model)
    own = source_images(load_config(None), model)
    assert own.shape == (2000, 1, 28, 28), "all of them, though they are no whole number of batches"
    assert torch.equal(own, source_images(load_config(None, ["source=fashion_train"]), model))


def test_a_run_whose_parts_have_names_is_a_configuration(tmp_path, monkeypatch):
    """It is audited and run again from run.json, with one more scenario, and makes what is missing alone."""
    (tmp_path / "my_batches.py").write_text(
        "import torch\n"
        "def few():\n"
        "    torch.manual_seed(0)\n"
        "    return [(torch.randn(4, 1, 28, 28), torch.arange(4)) for _ in range(3)]\n"
    )
    monkeypatch.chdir(tmp_path)
    given = {"methods": ["standard", ("tent", {"lr": 0.001})], "clock": CLOCK, "device": "cpu"}
    half = Discrete(utilisation=0.5)
    first = tempora.evaluate(
        "fashion_resnet", "my_batches:few", scenarios=half, out=tmp_path / "run", **given
    )
    assert audit(first, cells=4)["agrees"].all()
    config = load_config(tmp_path / "run", flags={"scenarios": [{"protocol": "amortised", "budget_x": 0.5}]})
    assert (config.stream, config.data.batches) == (None, "my_batches:few")
    made = {path.name for path in (tmp_path / "run" / "traces").iterdir()}
    with RunFolder.for_writing(tmp_path / "run") as folder:
        again = Run(build_job(config), folder).execute()
    assert made < {path.name for path in (tmp_path / "run" / "traces").iterdir()}
    assert set(again.utilities["protocol"]) == {"offline", "discrete", "amortised"}
    before = first.utilities[["method", "protocol", "adapting_pass", "utility"]]
    assert len(before.merge(again.utilities, on=list(before.columns))) == len(before)
    del given["clock"]
    tempora.evaluate(
        load("fashion_resnet"), "my_batches:few", scenarios=[], out=tmp_path / "own", clock=CLOCK, **given
    )
    with pytest.raises(TemporaError, match="again"):
        load_config(tmp_path / "own")
