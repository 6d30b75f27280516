"""The nine later methods follow their oracles: scores, parameters and statistics to 1e-8 over ten batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tempora_tta.methods
import tempora_tta.models
from oracles import more
from oracles.compare import follow
from oracles.networks import sharpen, stream, trained
from oracles.views import fixed_view


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def clean(n: int) -> Tensor:
    """Source samples: not the stream's."""
    return torch.cat(stream((16,) * (n // 16 + 1), seed=77))[:n]


def create(name: str, network: nn.Module, **settings: Any) -> Any:
    model = tempora_tta.models.wrap(network, mean=(0.5,) * 3, std=(0.5,) * 3)
    return tempora_tta.methods.create(name, model, seed=1, **settings)


def turning_view() -> Callable[[Tensor], Tensor]:
    """A view that differs from call to call and not from one side to the other."""
    calls = 0

    def view(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return 0.9 * fixed_view(x).roll(calls % 5, -1)

    return view


def masks() -> Callable[[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(8)
    return lambda w: torch.rand(w.shape, generator=generator) < 0.02


def alpha_bn(network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    return create("alpha_bn", network, **settings), more.AlphaBN(network, **settings)


def t3a(network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    return create("t3a", network, **settings), more.T3A(network, **settings)


def eata(network: nn.Module, beta: float = 300.0, samples: int = 150, **settings: Any) -> tuple[Any, Any]:
    source = clean(samples)
    method = create("eata", network, source=source, samples=samples, beta=beta, **settings)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(1)).tolist()
    return method, more.Eata(network, source=source, order=order, beta=beta, **settings)


def rdumb(network: nn.Module, reset_every: int = 4, **settings: Any) -> tuple[Any, Any]:
    settings = {"reset_every": reset_every, **settings}
    return create("rdumb", network, **settings), more.RDumb(network, **settings)


def roid(network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    method = create("roid", network, **settings)
    method.view = fixed_view
    return method, more.Roid(network, view=fixed_view, **settings)


def cotta(network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    method = create("cotta", network, **settings)
    method.view, method.mask = turning_view(), masks()
    return method, more.Cotta(network, view=turning_view(), mask=masks(), **settings)


def rotta(network: nn.Module, capacity: int = 12, **settings: Any) -> tuple[Any, Any]:
    method = create("rotta", network, capacity=capacity, **settings)
    method.view = turning_view()
    return method, more.Rotta(network, view=turning_view(), capacity=capacity, **settings)


def three_views(image: Tensor) -> Tensor:
    return torch.stack([image, image.flip(-1), 0.7 * image.roll(3, -2)])


def memo(network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    method = create("memo", network, **settings)
    method.views = three_views
    return method, more.Memo(network, views=three_views, **settings)


def foa(network: nn.Module, **settings: Any) -> tuple[Any, Any]:
    source = clean(48)
    method = create("foa", network, source=source, samples=48, **settings)
    generator = torch.Generator().manual_seed(4)
    twin = torch.Generator().manual_seed(4)
    search = method.search

    def candidates() -> Tensor:
        z = torch.randn(27, search.dimensions, dtype=torch.float64, generator=generator)
        if search.axes is not None:  # K^(1/2) z, which does not depend on the choice of eigenvectors
            z = ((z @ search.axes) * search.lengths) @ search.axes.T
        return torch.cat([search.mean + search.sigma * z, method.winner[None]])

    method.candidates = candidates
    oracle = more.Foa(
        network,
        source=source,
        drawn=lambda: torch.randn(27, search.dimensions, dtype=torch.float64, generator=twin),
        first=method.winner.clone(),
        identity=settings.get("covariance") == "identity",
    )
    return method, oracle


PAIRS: dict[str, Callable[..., tuple[Any, Any]]] = {
    pair.__name__: pair for pair in (alpha_bn, t3a, eata, rdumb, roid, cotta, rotta, memo, foa)
}
KINDS_OF = {"alpha_bn": ("bn",), "foa": ("vit",)}
FITS = [(name, kind) for name in PAIRS for kind in KINDS_OF.get(name, ("bn", "gn", "vit"))]


def batches_for(name: str) -> list[Tensor]:
    """One sample has no standard deviation, which FOA needs; MEMO takes samples one by one, so a few will do."""
    if name == "memo":
        return [x[:3] for x in stream()]
    return [x if len(x) > 1 or name != "foa" else stream()[0][:2] for x in stream()]


def short() -> list[Tensor]:
    """For settings that change one step of what ten batches have shown: full and ragged ones, few."""
    return stream((16, 9, 1, 3, 16, 16))


@pytest.mark.parametrize(("name", "kind"), FITS)
def test_ten_batches_follow_the_oracle_and_two_more_frozen(name: str, kind: str) -> None:
    batches = [*batches_for(name), *batches_for(name)[:2]]
    actions = follow(*PAIRS[name](trained(kind)), batches, freeze_after=10)
    assert actions[10:] == ["none"] * 2


@pytest.mark.parametrize(("name", "kind"), [(name, KINDS_OF.get(name, ("bn",))[0]) for name in PAIRS])
def test_frozen_before_the_first_batch(name: str, kind: str) -> None:
    follow(*PAIRS[name](trained(kind)), batches_for(name)[:2], freeze_after=0)


@pytest.mark.parametrize(
    "settings",
    [{"mode": "ema"}, {"prior": 16.0}, {"frozen_stats": "batch"}, {"alpha": 0.7}],
    ids=lambda settings: next(iter(settings)),
)
def test_alpha_bn_mixes_as_it_is_told(settings: dict[str, Any]) -> None:
    follow(*alpha_bn(trained("bn"), **settings), short(), freeze_after=4)


@pytest.mark.parametrize("filter_k", [1, 3, None])
def test_t3a_keeps_as_many_supports_as_it_is_told(filter_k: int | None) -> None:
    method, oracle = t3a(trained("vit"), filter_k=filter_k)
    follow(method, oracle, short(), freeze_after=5)
    kept = method.classes < 10
    per_class = torch.bincount(method.classes[kept], minlength=10)
    assert filter_k is None or (per_class.max() == filter_k and len(method.classes) <= 10 * filter_k)


def test_eata_without_a_penalty_is_eta_to_the_bit() -> None:
    ours, plain = create("eata", trained("bn"), beta=0), create("eta", trained("bn"))
    for x in stream():
        assert torch.equal(ours.predict(x), plain.predict(x))
        assert ours.adapt() == plain.adapt()


@pytest.mark.parametrize("prior", ["probabilities", "none"])
def test_roid_may_use_another_prior(prior: str) -> None:
    follow(*roid(trained("bn"), prior=prior), short(), freeze_after=5)


def test_cotta_with_the_gate_closed_and_symmetric() -> None:
    method, oracle = cotta(trained("bn"), gate=0.01, target="symmetric")
    follow(method, oracle, short())
    assert set(oracle.opened) == {False}
    assert method.work == ("plain", 1.0)


def test_cotta_s_gate_opens_and_closes() -> None:
    _, oracle = cotta(sharpen(trained("vit"), 1.3), gate=0.7)
    for x in stream():
        oracle.predict(x)
    assert set(oracle.opened) == {True, False}


@pytest.mark.parametrize("capacity", [5, 64])
def test_rotta_s_memory_of_another_size(capacity: int) -> None:
    follow(*rotta(trained("bn"), capacity=capacity), stream())


def test_rotta_adds_evicts_and_drops() -> None:
    _, oracle = rotta(trained("bn"))
    for x in stream():
        oracle.predict(x)
        oracle.adapt()
    assert min(oracle.outcomes.values()) > 5


def test_foa_s_search_without_a_matrix() -> None:
    follow(*foa(trained("vit"), covariance="identity"), batches_for("foa")[:4], freeze_after=3)


def test_foa_tries_small_batches_several_candidates_at_a_time() -> None:
    follow(*foa(trained("vit")), [x[:3] for x in batches_for("foa")[:2]])
