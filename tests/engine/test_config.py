"""The configuration: strict, with suggestions and line numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tempora import TemporaError
from tempora.engine.config import RunConfig, load_config, template
from tempora.engine.setup import scenarios

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
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


def test_wrong_scenarios_say_which():
    config = load_config(None, flags={"scenarios": [{"protocol": "discrete", "interval": 5}], "grid": "none"})
    with pytest.raises(TemporaError, match=r"scenarios\[0\]: unknown discrete setting 'interval'"):
        scenarios(config)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configurations_are_valid(path):
    config = load_config(path)
    assert config.data.root is None, "where the data lies is the user's to say"
    assert scenarios(config)


def test_the_papers_setups_have_the_papers_sizes():
    """Temporal evaluations per method: scenarios times shifts."""
    sizes = {"resnet50-imagenet-c": 240, "vit-imagenet-c": 225, "resnet18-cifar10-c": 135}
    for name, expected in sizes.items():
        config = yaml.safe_load((CONFIGS[0].parent / f"{name}.yaml").read_text())
        grid = scenarios(RunConfig.model_validate(config))
        assert len(grid) * 15 == expected, name
