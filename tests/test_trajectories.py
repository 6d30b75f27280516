"""Every method follows its oracle: scores, parameters and statistics to 1e-8 in float64 over ten batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import tempora_tta.methods
import tempora_tta.models
from oracles import gradient_based, gradient_free
from oracles.compare import assert_close, assert_same_state, follow
from oracles.networks import sharpen, stream, trained, widen
from oracles.plain import Oracle
from oracles.views import fixed_mask, fixed_noise, fixed_shuffle, fixed_view

ORACLES: dict[str, type[Oracle]] = {
    "standard": gradient_free.Standard,
    "adabn": gradient_free.AdaBN,
    "lame": gradient_free.Lame,
    "neo": gradient_free.Neo,
    "tent": gradient_based.Tent,
    "eta": gradient_based.Eta,
    "shot_im": gradient_based.ShotIM,
    "sar": gradient_based.Sar,
    "deyo": gradient_based.Deyo,
    "cmf": gradient_based.Cmf,
    "spa": gradient_based.Spa,
    "zerosiam": gradient_based.ZeroSiam,
}
KINDS_OF = {"adabn": ("bn",), "spa": ("gn", "vit"), "zerosiam": ("gn", "vit")}
FITS = [(name, kind) for name in ORACLES for kind in KINDS_OF.get(name, ("bn", "gn", "vit"))]
ONE_KIND = [(name, KINDS_OF.get(name, ("bn",))[0]) for name in ORACLES]
GRADIENT_FITS = [fit for fit in ONE_KIND if issubclass(ORACLES[fit[0]], gradient_based.GradientOracle)]
ON_BATCH_STATISTICS = [name for name, kind in FITS if kind == "bn" and ORACLES[name].batch_statistics]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors: threads only cost."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def create(name: str, network: nn.Module, mean: float = 0.5, std: float = 0.5, **settings: Any) -> Any:
    """The method, its random parts replaced by fixed images."""
    model = tempora_tta.models.wrap(network, mean=(mean,) * 3, std=(std,) * 3)
    method = tempora_tta.methods.create(name, model, seed=1, **settings)
    if name == "deyo":
        method.shuffle = fixed_shuffle
    elif name == "cmf":
        method.view = fixed_view
    elif name == "spa":
        method.masked, method.noise = fixed_mask, fixed_noise
    return method


def oracle_of(name: str, network: nn.Module, **settings: Any) -> Any:
    """The oracle, given the same fixed images."""
    views: dict[str, Any] = {
        "deyo": {"shuffle": fixed_shuffle},
        "cmf": {"view": fixed_view},
        "spa": {"mask": fixed_mask, "noise": fixed_noise, "limits": [(-1.0, 1.0)] * 3},
    }
    return ORACLES[name](network, **(views.get(name, {}) | settings))


def pair(name: str, network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    return create(name, network, **settings), oracle_of(name, network, **settings)


@pytest.mark.parametrize(("name", "kind"), FITS)
def test_ten_batches_follow_the_oracle_and_two_more_frozen(name: str, kind: str) -> None:
    actions = follow(*pair(name, trained(kind)), [*stream(), *stream()[:2]], freeze_after=10)
    assert actions[10:] == ["none"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), GRADIENT_FITS)
def test_large_steps_follow_the_oracle(name: str, kind: str) -> None:
    follow(*pair(name, trained(kind), lr=0.02), stream())


@pytest.mark.parametrize(("name", "kind"), ONE_KIND)
def test_frozen_before_the_first_batch(name: str, kind: str) -> None:
    follow(*pair(name, trained(kind)), stream()[:2], freeze_after=0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), ONE_KIND)
def test_unfrozen_it_goes_on_from_where_it_stopped(name: str, kind: str) -> None:
    method, oracle = pair(name, trained(kind))
    follow(method, oracle, stream()[:4], freeze_after=2)
    method.unfreeze()
    oracle.frozen = False
    follow(method, oracle, stream()[4:6])


@pytest.mark.parametrize("name", ON_BATCH_STATISTICS)
def test_frozen_on_the_statistics_of_each_batch(name: str) -> None:
    follow(*pair(name, trained("bn"), frozen_stats="batch"), stream(), freeze_after=5)


@pytest.mark.parametrize("source_stats", ["reset", "keep"])
@pytest.mark.parametrize("name", ON_BATCH_STATISTICS)
def test_statistics_start_from_zero_and_one_or_from_the_source(name: str, source_stats: str) -> None:
    follow(*pair(name, trained("bn"), source_stats=source_stats), stream()[:6], freeze_after=3)


@pytest.mark.parametrize("asked", [{"track": "every_forward"}, {"preset": "paper"}], ids=["track", "paper"])
@pytest.mark.parametrize("name", ["sar", "deyo", "cmf"])
def test_every_forward_feeds_the_statistics_if_asked(name: str, asked: dict[str, str]) -> None:
    method = create(name, trained("bn"), **asked)
    follow(method, oracle_of(name, trained("bn"), track="every_forward"), stream(), freeze_after=7)


def test_shot_im_star_adapts_norms_on_reset_statistics() -> None:
    settings = {"params": "norm", "source_stats": "reset"}
    follow(*pair("shot_im", trained("bn"), **settings), stream(), freeze_after=7)


@pytest.mark.parametrize("noise", [5e-5, 0.3])
def test_cmf_trusts_fully_at_little_noise_and_never_less_than_its_limit(noise: float) -> None:
    follow(*pair("cmf", trained("bn"), noise=noise, lr=0.02), stream())


@pytest.mark.parametrize("kind", ["gn", "vit"])
def test_zerosiam_in_two_passes_is_the_same_method(kind: str) -> None:
    method = create("zerosiam", trained(kind), preset="paper")
    assert method.settings.passes == 2
    follow(method, oracle_of("zerosiam", trained(kind)), stream())


@pytest.mark.parametrize("kind", ["gn", "vit"])
@pytest.mark.parametrize("passes", [2, 3])
def test_spa_in_two_or_three_passes_is_the_same_method(kind: str, passes: int) -> None:
    method, oracle = create("spa", trained(kind), passes=passes), oracle_of("spa", trained(kind))
    runs, features = [], method.model.features
    method.model.features = lambda x: runs.append(len(x)) or features(x)
    batches = stream()
    follow(method, oracle, batches)
    size = len(batches[0])
    assert runs[:passes] == {2: [size, 2 * size], 3: [size, size, size]}[passes]


@pytest.mark.parametrize("kind", ["gn", "vit"])
@pytest.mark.parametrize("name", ["spa", "zerosiam"])
def test_the_projector_has_its_own_learning_rate(name: str, kind: str) -> None:
    follow(*pair(name, trained(kind), projector_lr=0.2), stream())


@pytest.mark.parametrize("kind", ["gn", "vit"])
def test_spa_takes_any_two_views(kind: str) -> None:
    method, oracle = pair("spa", trained(kind))
    method.views = lambda x: (fixed_mask(x), fixed_view(x))
    oracle.noisy = lambda x, _strength: fixed_view(x)
    oracle.extra_state = lambda: {"projector": oracle.w}  # the strength is not used, so it is not compared
    follow(method, oracle, stream())


def test_spa_clips_to_what_a_normalised_image_can_be() -> None:
    method = create("spa", trained("vit"), mean=0.4, std=0.25)
    oracle = oracle_of("spa", trained("vit"), limits=[(-0.4 / 0.25, 0.6 / 0.25)] * 3)
    follow(method, oracle, stream())


@pytest.mark.parametrize(("classes", "margin"), [(12, 0.4), (31, 0.4), (32, 0.1), (316, 0.1), (317, 0.05)])
def test_eta_takes_the_margin_of_the_nearest_number_of_classes(classes: int, margin: float) -> None:
    network = widen(sharpen(trained("vit"), 3.0), classes)
    batches = stream((4, 16, 16, 16))
    method, oracle = pair("eta", network)
    assert oracle.d == margin
    follow(method, oracle, batches)
    for other_margin in {0.4, 0.1, 0.05} - {margin}:
        other = oracle_of("eta", network)
        other.d = other_margin
        for x in batches:
            other.predict(x)
            other.adapt()
        assert other.kept != oracle.kept  # so the trajectory could tell


@pytest.mark.parametrize(("kind", "sharpness", "lr"), [("bn", 2.2, 0.1), ("vit", 4.0, 1e-3)])
def test_sar_recovers_when_its_loss_collapses(kind: str, sharpness: float, lr: float) -> None:
    actions = follow(*pair("sar", sharpen(trained(kind), sharpness), lr=lr), stream())
    recovery = actions.index("recovered")
    assert "step" in actions[:recovery]
    assert "step" in actions[recovery:]


@pytest.mark.parametrize("kind", ["bn", "vit"])
def test_sar_restores_the_weights_when_no_sample_stays_below_the_limit(kind: str) -> None:
    method, oracle = pair("sar", trained(kind), rho=3.0)
    follow(method, oracle, stream())
    assert any(first > 0 and second == 0 for _, first, second in oracle.kept)


@pytest.mark.parametrize("kind", ["bn", "vit"])
@pytest.mark.parametrize("name", ["tent", "eta", "shot_im", "sar"])
def test_reforward_predicts_again_after_the_step(name: str, kind: str) -> None:
    method, oracle = create(name, trained(kind), reforward=True), oracle_of(name, trained(kind))
    for index, x in enumerate(stream()[:5]):
        scores = method.predict(x)
        oracle.predict(x)
        assert oracle.adapt() == method.adapt()
        assert_close(scores, oracle.predict_again(), f"batch {index}: scores")
        assert_same_state(method, oracle, f"after batch {index}")


@pytest.mark.parametrize("kind", ["bn", "vit"])
@pytest.mark.parametrize("name", ["eta", "sar", "deyo"])
def test_the_filters_keep_and_drop(name: str, kind: str) -> None:
    """Without this, the trajectories above could agree while no filter ever decided anything."""
    # SAR's usual perturbation moves few samples across the limit, and on some processors none
    far = {"rho": 0.5} if name == "sar" else {}
    method, oracle = pair(name, trained(kind), **far)
    follow(method, oracle, stream())
    assert any(0 < first < n for n, first, _ in oracle.kept)
    assert any(0 < second < first for _, first, second in oracle.kept)


@pytest.mark.parametrize("kind", ["bn", "gn", "vit"])
def test_cmf_drops_samples_and_lame_stops_at_different_steps(kind: str) -> None:
    cmf, lame = oracle_of("cmf", trained(kind)), oracle_of("lame", trained(kind))
    for x in stream():
        cmf.predict(x)
        cmf.adapt()
        lame.predict(x)
    assert any(0 < kept < n for n, kept in cmf.kept)
    assert len({steps for steps in lame.steps if 3 < steps < 100}) > 3


@pytest.mark.parametrize("kind", ["gn", "vit"])
def test_spa_drops_samples_of_both_views(kind: str) -> None:
    oracle = oracle_of("spa", trained(kind))
    for x in stream():
        oracle.predict(x)
        oracle.adapt()
    assert any(0 < masked < n and 0 < noisy < n for n, masked, noisy in oracle.kept)


def test_lame_stops_at_its_third_step_at_the_earliest() -> None:
    """Near the uniform distribution the energy is flat from the start while Y still moves by 1e-7 and more."""
    method, oracle = pair("lame", sharpen(trained("vit"), 1e-5))
    follow(method, oracle, stream())
    assert set(oracle.steps) == {3}


def test_lame_of_one_sample_is_its_softmax() -> None:
    network, x = trained("vit"), stream()[0][:1]
    torch.testing.assert_close(create("lame", network).predict(x), network(x).softmax(-1), rtol=0, atol=1e-12)


def test_neo_centres_on_the_mean_of_everything_seen() -> None:
    network = trained("bn")
    method = create("neo", network)
    first, second = stream()[:2]
    method.predict(first)
    method.adapt()
    f = network.forward_head(network.forward_features(torch.cat([first, second])), pre_logits=True)
    expected = network.fc(f[len(first) :] - f.mean(0))
    torch.testing.assert_close(method.predict(second), expected, rtol=0, atol=1e-10)
