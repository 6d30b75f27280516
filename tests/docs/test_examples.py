"""The examples do what they say: in a folder of their own, on the bundled data, under recorded clocks."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

import tempora_tta as tempora
from tempora_tta import methods, models
from tempora_tta.methods.testing import check

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def in_examples(monkeypatch, tmp_path):
    """Stand where a user of the examples would: modules are found there, files are written elsewhere."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)


def test_the_custom_method_keeps_every_promise(in_examples):
    model = models.load("fashion_resnet")
    report = check("custom_method:PriorCorrection", model)
    assert report.passed, str(report)
    with pytest.raises(tempora.TemporaError, match=r"strength=2\.0.*1"):
        methods.create("custom_method:PriorCorrection", model, strength=2.0)


def test_the_camera_reads_its_video(in_examples):
    stats = runpy.run_path(str(EXAMPLES / "camera.py"))["main"](frames=12, fps=200)
    assert stats["arrived"] == 12
    assert stats["answered"] + stats["dropped"] == 12
    assert stats["answered"] > 0


def test_the_server_answers_its_clients(in_examples):
    statuses = runpy.run_path(str(EXAMPLES / "serve_http.py"))["main"](requests=40, rate_hz=400)
    assert statuses == {200: 40}, "the fallback answers what the pipeline loses"


@pytest.mark.slow
def test_the_notebook_goes_from_pictures_to_a_pipeline(in_examples, tmp_path):
    notebook = json.loads((EXAMPLES / "from_pictures_to_pipeline.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    namespace: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), namespace)
    assert (tmp_path / "report.html").is_file()
    assert namespace["answer"].method == "tent"
    assert [len(found) for found in namespace["classes"]] == [16, 16]
    utilities = tempora.open_run(tmp_path / "run").utilities
    assert set(utilities["method"]) == {"standard", "adabn", "neo", "tent"}
