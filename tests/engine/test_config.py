"""The configuration: strict, with suggestions and line numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import yaml
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.config import RunConfig, checked, template
from tempora_tta.data.images import Geometry
from tempora_tta.engine import Run
from tempora_tta.engine.audit import audit
from tempora_tta.engine.build import build_job, scenarios_of
from tempora_tta.engine.load_config import load_config
from tempora_tta.models import load
from tempora_tta.scenarios import GRIDS, Discrete, Recorded, grid
from tempora_tta.store import RunFolder

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))

LAUGHS = "a: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source:\n  dataset: cifar10\n  sample: 3\n", r"'source.sample' .*: did you mean 'samples'"),
        ("source:\n  samples: 3\n", r"source.dataset is missing"),
        ("modle: x\n", r"unknown key 'modle' \(line 1 of .*run.yaml\): did you mean 'model'"),
        (
            "model: x\ndata:\n  severty: 3\n",
            r"unknown key 'data.severty' \(line 3 of .*: did you mean 'severity'",
        ),
        ("model: x\n\nbatch_size: many\n", r"batch_size='many' \(line 3 of"),
        ("seeds: []\n", r"seeds=\[\] \(line 1"),
        ("data: {severity: 9}\n", r"data.severity=9 \(line 1"),
        ("grid: papr\n", "grid='papr'"),
        ("methods:\n - tent\n - {label: x}\n", r"methods.1.name.*line 3"),
        ("- a\n- b\n", "expected keys and values"),
        ("a: [\n", "is not YAML"),
        ("batches: 2024-13-45\n", "is not YAML: month must be in"),
        ("batches: 3\nmodel: x\nbatches: 4\n", "batches stands on line 1 and on line 3: keep one of them"),
        ("model: &again [*again]\n", "aliases .* that contain each other"),
        (LAUGHS, "aliases .* that contain each other"),
        ("[" * 5000, "is nested too deeply"),
        ("batch_size: yes\n", "batch_size=True .*must not be true or false"),
        ("seeds: [1, off]\n", r"seeds\.1=False .*must not be true or false"),
        ("seeds: [-1]\n", r"seeds=\[-1\] .*from 0 to 2\^63 - 1, each once"),
        ("seeds: [1, 1]\n", r"seeds=\[1, 1\] .*each once"),
        ("checkpoint: 7\n", r"checkpoint=7 \(line 1 of .*must be a path"),
        (
            "scenarios:\n - protocol: discrete\n   utilization: 1\n",
            r"scenarios\[0\] \(line 3 of .*unknown discrete setting 'utilization': did you mean 'utilisation'",
        ),
        ("scenarios:\n - protocol: discrete\n   interval_ms: -5\n", r"\(line 3 of .*interval_ms=-5"),
        (
            "scenarios:\n - protocol: amortised\n   budget_x: 1\n   rule: lax\n",
            r"\(line 4 of .*unknown rule 'lax'",
        ),
        ("scenarios:\n - interval_ms: 5\n   protocol: discreet\n", r"\(line 3 of .*did you mean 'discrete'"),
        (
            "scenarios:\n - {protocol: offline}\n - {interval_ms: 5}\n",
            r"scenarios\[1\] \(line 3 of .*protocol",
        ),
        (
            "methods:\n - neo\n - name: eta\n   margins: 1\n",
            r"methods\[1\] \(line 4 of .*unknown setting of eta 'margins': did you mean 'margin'\?",
        ),
        ("methods:\n - {name: tent, learning_rate: 1}\n", r"\(line 2 of .*'learning_rate': allowed: .*lr"),
        ("methods:\n - name: tent\n   lr: fast\n", r"\(line 3 of .*tent: lr='fast': must be a number"),
        ("methods:\n - neo\n - tnet\n", r"methods\[1\] \(line 3 of .*'tnet': did you mean 'tent'"),
    ],
)
def test_mistakes_point_at_their_line(tmp_path, text, message):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(TemporaError, match=message):
        load_config(path)


def test_wrong_overrides():
    with pytest.raises(TemporaError, match="write key=value"):
        load_config(None, ["severity"])
    with pytest.raises(TemporaError, match="no configuration 'missing"):
        load_config(Path("missing.yaml"))


@pytest.mark.parametrize("override", ["methods=[tnet]", "batch_size=many", "data.severity=9"])
def test_what_the_command_line_gave_is_on_no_line(tmp_path, override):
    path = tmp_path / "run.yaml"
    path.write_text("methods:\n - tent\nbatch_size: 8\ndata:\n  severity: 3\n")
    with pytest.raises(TemporaError) as raised:
        load_config(path, [override])
    assert "line" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"protocol": "discrete", "interval": 5}, r"scenarios\[0\]: unknown discrete setting 'interval'"),
        ({"protocol": ["discrete"]}, r"scenarios\[0\]: unknown protocol"),
    ],
)
def test_wrong_scenarios_say_which(spec, message):
    with pytest.raises(TemporaError, match=message):
        load_config(None, flags={"scenarios": [spec]})
    with pytest.raises(TemporaError, match=message):
        scenarios_of(RunConfig(scenarios=[spec]))


def test_no_limit_survives_run_json():
    config = load_config(None, flags={"scenarios": [{"protocol": "amortised", "budget_ms": float("inf")}]})
    stored = json.loads(json.dumps(config.plain()))
    assert checked(stored) == config


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
    ("arrivals", "message"),
    [
        ({"recorded": "nowhere.csv"}, r"scenarios\[0\].*nowhere.csv.*cannot be read"),
        ({"recorded": "words.txt"}, "'soon' is no number"),
        ({"recorded": "no_such_module:times"}, "there is no module 'no_such_module'"),
        ({"poisson": {"utilisation": -1}}, "utilisation=-1: must be a finite number above 0"),
    ],
)
def test_wrong_arrivals_say_what_to_do(tmp_path, monkeypatch, arrivals, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("0\nsoon\n")
    spec = {"protocol": "deployment", "arrivals": arrivals}
    with pytest.raises(TemporaError, match=message):
        load_config(None, flags={"scenarios": [spec]})


@pytest.mark.parametrize("name", GRIDS)
def test_every_grid_is_a_grid_of_a_run(name):
    assert scenarios_of(load_config(None, flags={"grid": name})) == grid(name)


def test_source_samples_are_drawn_from_another_dataset_than_the_stream_s(tmp_path):
    from PIL import Image

    from tempora_tta import models
    from tempora_tta.engine.images import source_images

    for label in ("a", "b"):
        for index in range(3):
            path = tmp_path / "train" / label / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (28, 28), 40 * index + 20).save(path)
    (tmp_path / "train" / "classes.txt").write_text("a\nb\n")
    model = models.load("fashion_resnet")
    options = ["source.dataset=folder", f"source.root={tmp_path / 'train'}", "source.samples=5"]
    images = source_images(load_config(None, options), model)
    assert images.shape == (5, 1, 28, 28)
    assert source_images(load_config(None, ["data.dataset=imagenet_c"]), model) is None
    with pytest.raises(TemporaError, match="7 samples wanted, folder has 6"):
        source_images(load_config(None, [*options[:2], "source.samples=7"]), model)
    with pytest.raises(TemporaError, match="fashion is what the stream comes from"):
        source_images(load_config(None, ["source.dataset=fashion"]), model)


def test_the_bundled_benchmark_has_source_samples_of_its_own():
    """All 2,000 of them, though they are no whole number of batches of 64; also by one word."""
    import torch

    from tempora_tta import models
    from tempora_tta.engine.images import source_images

    model = models.load("fashion_resnet")
    own = source_images(load_config(None), model)
    assert own.shape == (2000, 1, 28, 28)
    assert torch.equal(own, source_images(load_config(None, ["source=fashion_train"]), model))


def test_evaluate_takes_keys_of_a_configuration_and_no_others(network, batches):
    with pytest.raises(
        TemporaError, match="unknown option of evaluate 'provision_y': did you mean 'provision_x'"
    ):
        tempora.evaluate(network("fashion_resnet"), batches, "standard", provision_y=1)
    with pytest.raises(TemporaError, match="unknown option of evaluate 'batch_size'"):
        tempora.evaluate(network("fashion_resnet"), batches, "standard", batch_size=8)
    with pytest.raises(TemporaError, match=r"rule='lax': .*overshoot, strict"):
        tempora.evaluate(network("fashion_resnet"), batches, "standard", rule="lax")


def test_a_run_whose_parts_have_names_is_a_configuration(network, batches, tmp_path, monkeypatch):
    """It is audited and run again from run.json, with one more scenario, and makes what is missing alone."""
    (tmp_path / "my_batches.py").write_text(
        "import torch\n"
        "from tempora_tta import data, models\n"
        "def few():\n"
        "    shift = data.open('fashion', shifts=['contrast'])['contrast']\n"
        "    prepared = models.load('fashion_resnet').preprocessing\n"
        "    stream = data.open_stream(shift, prepared, batch_size=8, limit_batches=4)\n"
        "    return [(stream.batch(i).clone(), torch.from_numpy(stream.labels(i))) for i in range(4)]\n"
    )
    monkeypatch.chdir(tmp_path)
    given = {"methods": ["standard", ("tent", {"lr": 0.001})], "clock": CLOCK, "device": "cpu"}
    half = Discrete(utilisation=0.5)
    first = tempora.evaluate(
        "fashion_resnet", "my_batches:few", scenarios=half, out=tmp_path / "run", **given
    )
    assert audit(first, cells=4)["agrees"].all()
    config = load_config(tmp_path / "run", flags={"scenarios": [{"protocol": "amortised", "budget_x": 0.5}]})
    assert config.stream is None
    assert config.data.batches == "my_batches:few"
    made = {path.name for path in (tmp_path / "run" / "traces").iterdir()}
    with RunFolder.for_writing(tmp_path / "run") as folder:
        again = Run(build_job(config), folder).execute()
    assert made < {path.name for path in (tmp_path / "run" / "traces").iterdir()}
    assert set(again.utilities["protocol"]) == {"offline", "discrete", "amortised"}
    before = first.utilities[["method", "protocol", "adapting_pass", "utility"]]
    both = before.merge(again.utilities, on=list(before.columns))
    assert len(both) == len(before)


def test_a_run_of_objects_has_no_configuration(network, batches, tmp_path):
    tempora.evaluate(
        network("fashion_resnet"),
        batches[:2],
        "standard",
        [],
        clock=CLOCK,
        device="cpu",
        out=tmp_path / "run",
    )
    with pytest.raises(TemporaError, match="no configuration that could be run again"):
        load_config(tmp_path / "run")


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
    assert given.notes[0].startswith("images are prepared as the run says: resized to 56 (nearest)")
    first, second = (job.identity(job.methods[0], job.streams[0], "offline") for job in (own, given))
    assert first.items() < second.items()
    with pytest.raises(TemporaError, match=r"preprocessing.std=\[0.2, 0.3\]: fashion_resnet takes 1 channel"):
        build_job(checked({"preprocessing": {"std": [0.2, 0.3]}}))


def test_the_papers_vit_saw_imagenet_r_and_v2_resized_to_256():
    found = {}
    for name in ("vit-imagenet-c", "vit-imagenet-r", "vit-imagenet-v2"):
        model = load("vit_b_16", pretrained=False)
        model.prepare(**load_config(CONFIGS[0].parent / f"{name}.yaml").preparation())
        images = Geometry.of(model.preprocessing)
        found[name] = (images.resize_height, images.interpolation, images.height)
    assert found["vit-imagenet-c"] == (248, "bicubic", 224)  # its images come cropped
    assert found["vit-imagenet-r"] == found["vit-imagenet-v2"] == (256, "bilinear", 224)
