"""Is `pace` worth deploying? Runs the bundled benchmark, judges it, and times a settled network beside Standard.

    python benchmarks/pace.py run                      both networks: resumes, `--quick` for a small one
    python benchmarks/pace.py run --device cuda --jobs 12
    python benchmarks/pace.py judge                    the three criteria, from the runs that are there
    python benchmarks/pace.py ablations                parts of it left out; correlated and changing streams
    python benchmarks/pace.py latency --device cpu     a settled network's time over Standard's, in one run

`judge` writes benchmarks/results/pace-bundled.json, `latency` pace-latency-DEVICE.json.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
import typer
from scipy import stats

from common import RESULTS, Device, committed, console, in_percent, markdown_table, script, timed
from tempora_tta import data, evaluate, models, open_run
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Moment, create
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Scenario
from tempora_tta.scenarios import grid as grid_of

PACE, STANDARD = "pace", "standard"
NETWORKS = ("fashion_resnet", "fashion_vit")
SHIFTS = "clean,gaussian_noise,contrast,fog,pixelate,brightness,motion_blur"
FIRST_TWELVE = "standard,adabn,lame,neo,tent,eta,shot_im,sar,deyo,cmf,spa,zerosiam"
FLOOR, REGRET, CLEAN = -0.005, 0.005, -0.003
CELL = ["network", "protocol", "label", "shift", "seed"]
DRAWS = 2000
PRESETS = ("camera", "server", "kiosk", "drone", "wearable", "alfarra")

Names = Annotated[str, typer.Option(help="Names or numbers, with commas.")]
Folder = Annotated[Path, typer.Option(help="Where the runs are.")]
app = typer.Typer(add_completion=False, help=__doc__)


def presets() -> list[Scenario]:
    """All of them as one grid: what they share is computed once."""
    return [scenario for name in PRESETS for scenario in grid_of(name)]


@app.command()
def run(
    out: Folder = Path("runs/pace"),
    networks: Names = "fashion_resnet,fashion_vit",
    batches: int = 40,
    seeds: Names = "1,2,3,4,5",
    shifts: Names = SHIFTS,
    methods: Names = f"{FIRST_TWELVE},settle,pace",
    grid: Annotated[
        str, typer.Option(help="Names from `tempora list scenarios`, or presets, with commas.")
    ] = "relative,presets",
    device: Device = "cpu",
    jobs: Annotated[int, typer.Option(help="Runs at once, which share one profile of each network.")] = 1,
    profile_s: Annotated[float, typer.Option(help="Seconds for the profile of a network.")] = 120.0,
    clock: Annotated[
        Path | None,
        typer.Option(
            help="Runs of another machine: their NETWORK/profile/profile.json is the clock, and predictions are "
            "computed here."
        ),
    ] = None,
    quick: bool = False,
) -> None:
    """Make the runs, or go on with them: one for each grid, seed and network. --quick: 20 batches, two seeds, four
    shifts and the methods that win somewhere."""
    if quick:
        batches, seeds, shifts = 20, "1,2", "clean,contrast,gaussian_noise,pixelate"
        methods, grid = "standard,adabn,neo,eta,shot_im,settle,pace", "relative"
    profiles, common = {}, {}
    for network in networks.split(","):
        fitting = ",".join(name for name in methods.split(",") if fits(name, network))
        common[network] = ["--model", network, "--shifts", shifts, "--methods", fitting, "--device", device]
        if clock is None:
            profiles[network] = made_profile(out / network / "profile", common[network], profile_s)
        else:
            profiles[network] = clock / network / "profile" / "profile.json"
    own = {"presets": f"{Path(__file__).resolve()}:presets"}
    parts = [
        Part(
            out / network / f"{name.rpartition(':')[2]}-{seed}",
            [*options, "--batches", str(batches), "--seeds", seed, "--grid", own.get(name, name)],
            profiles[network],
            elsewhere=clock is not None,
        )
        for name in grid.split(",")
        for seed in seeds.split(",")
        for network, options in common.items()
    ]
    with ThreadPoolExecutor(jobs) as pool:
        failed = [
            part.folder for part, fine in zip(parts, pool.map(Part.make, parts), strict=True) if not fine
        ]
    if failed:
        said = ", ".join(map(str, failed))
        console.print(f"not finished, and said why in their log.txt: {said}. The same command goes on.")
        raise typer.Exit(1)


@dataclass(frozen=True)
class Part:
    """One run: a grid, a seed and a network."""

    folder: Path
    options: list[str]
    profile: Path
    elsewhere: bool
    """The profile is of another machine."""

    def make(self) -> bool:
        """Make it, or go on with it; whether it is whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        clock = str(self.profile) if self.elsewhere else "steady"
        if not self.elsewhere and not (self.folder / "profile.json").exists():
            shutil.copy(self.profile, self.folder / "profile.json")
        fine = tempora(self.folder, ["run", *self.options, "--clock", clock, "--out", str(self.folder)])
        console.print(f"{'done' if fine else 'FAILED'}  {self.folder}")
        return fine


def made_profile(folder: Path, common: list[str], seconds: float) -> Path:
    """How long each kind of work takes, alone on the device; then a short run, which meets kinds that a bare profile
    does not."""
    path = folder / "profile.json"
    profile = ["profile", *common, "--profile-s", str(seconds), "--out", str(path)]
    short = ["run", *common, "--batches", "12", "--seeds", "1", "--grid", "none", "--out", str(folder)]
    if not ((path.exists() or tempora(folder, profile)) and tempora(folder, short)):
        console.print(f"{folder} failed: its log.txt says why")
        raise typer.Exit(1)
    return path


def tempora(folder: Path, options: list[str]) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "tempora_tta", *options, "--dataset", "fashion", "--plain"]
        return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode == 0


def fits(method: str, network: str) -> bool:
    try:
        create(method, models.load(network))
    except TemporaError:
        return False
    return True


@app.command()
def judge(
    out: Annotated[
        list[Path] | None,
        typer.Option(help="Where the runs are; of a cell that several have, the last counts.  [runs/pace]"),
    ] = None,
    to: Path = RESULTS / "pace-bundled.json",
) -> None:
    """The three criteria."""
    folders, frames = out or [Path("runs/pace")], []
    for path in (path for folder in folders for path in sorted(folder.glob("*/*-*/utilities.parquet"))):
        found = open_run(path.parent).utilities
        if not path.parent.name.startswith("relative"):  # Offline is in every grid and counts once
            found = found[found["protocol"] != "offline"]
        frames.append(found[found["status"] == "ok"].assign(network=path.parent.parent.name))
    if not frames:
        said = ", ".join(map(str, folders))
        console.print(f"{said}: no finished runs yet: python benchmarks/pace.py run --out {folders[0]}")
        raise typer.Exit(1)
    figures = judged(pd.concat(frames).drop_duplicates([*CELL, "method"], keep="last"))
    to.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for name in ("floor", "regret", "clean"):
        console.print(
            f"{'holds' if figures[name]['holds'] else 'FAILS'}  {name}: {figures[name]['sentence']}"
        )


def judged(utilities: pd.DataFrame) -> dict[str, Any]:
    """Return everything that the page shows."""
    cells = utilities.pivot_table(
        index=CELL,
        columns="method",
        values="utility",
        sort=False,
    )
    return {
        "about": {
            "batches": int(utilities["batches"].max()),
            "seeds": sorted(int(seed) for seed in utilities["seed"].unique()),
            "shifts": list(utilities["shift"].unique()),
            "methods": list(cells.columns),
            "scenarios": len(utilities[["protocol", "label"]].drop_duplicates()),
        },
        "floor": floor(cells),
        "regret": regret(cells),
        "clean": clean(cells),
        "table": by_scenario(cells),
    }


def by_scenario(cells: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean utility by network and scenario, over shifts and seeds."""
    means = cells.groupby(level=["network", "protocol", "label"], sort=False).mean()
    return json.loads(means.round(4).reset_index().to_json(orient="records"))  # type: ignore[no-any-return]


def floor(cells: pd.DataFrame) -> dict[str, Any]:
    """No scenario's mean below Standard by more than half a point, and no simultaneous bound that excludes it, of a
    scenario or of one of its shifts."""
    lead = cells[PACE] - cells[STANDARD]
    means = lead.groupby(level=["network", "protocol", "label"], sort=False).mean()
    rows, shifts = simultaneous_upper(lead), simultaneous_upper_of_cells(lead)
    excluded = int((rows < FLOOR).sum() + (shifts < FLOOR).sum())
    worst = means.idxmin()
    return {
        "holds": bool(means.min() >= FLOOR and not excluded),
        "worst": float(means.min()),
        "where": list(worst),
        "cells_excluded": excluded,
        "sentence": f"the worst scenario, {worst[2]} on {worst[0]}, is {100 * means.min():+.2f} points from "
        f"Standard; the simultaneous bounds of {len(rows)} scenarios and of {len(shifts)} cells, a shift in one, "
        f"exclude -0.5 in {excluded}",
    }


def simultaneous_upper(lead: pd.Series) -> pd.Series:
    """Upper 95 % bounds of the mean lead of every network x scenario, which hold together: streams (a shift in an
    order) are resampled, all scenarios with them."""
    table = lead.unstack(["shift", "seed"])
    rng = np.random.default_rng(0)
    values = table.to_numpy()
    picks = rng.integers(values.shape[1], size=(DRAWS, values.shape[1]))
    means = np.nanmean(values[:, picks], axis=2)
    spread = means.std(axis=1) + 1e-9
    centre = np.nanmean(values, axis=1)
    far = np.quantile(((centre[:, None] - means) / spread[:, None]).max(axis=0), 0.95)
    return pd.Series(centre + far * spread, index=table.index)


def simultaneous_upper_of_cells(lead: pd.Series) -> pd.Series:
    """Upper 95 % bounds of the mean lead in every cell over its seeds: Student's, and Bonferroni's share for each."""
    cells = lead.groupby(level=["network", "protocol", "label", "shift"], sort=False)
    seeds = cells.size()
    far = stats.t.ppf(1 - 0.05 / len(seeds), (seeds - 1).clip(lower=1))
    return cells.mean() + far * cells.std().fillna(np.inf) / np.sqrt(seeds)


def regret(cells: pd.DataFrame) -> dict[str, Any]:
    """Against the method that is best per cell on the other seeds; protocols count equally."""
    own = losses(cells, PACE)
    others = {name: losses(cells, name) for name in cells.columns if name != PACE}
    single = min(others, key=lambda name: weighted(others[name]))
    gap = (others[single] - own).dropna()
    streams = gap.unstack(["network", "shift", "seed"])
    rng = np.random.default_rng(1)
    draws = [
        weighted(streams.iloc[:, rng.integers(streams.shape[1], size=streams.shape[1])].mean(axis=1))
        for _ in range(DRAWS // 4)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return {
        "holds": bool(weighted(own) <= REGRET and low > 0),
        "pace": weighted(own),
        "by_protocol": {name: float(one.mean()) for name, one in own.groupby(level="protocol", sort=False)},
        "best_single": single,
        "best_single_regret": weighted(others[single]),
        "all": {name: weighted(one) for name, one in others.items()},
        "lead": float(weighted(gap)),
        "lead_interval": [float(low), float(high)],
        "sentence": f"{100 * weighted(own):.2f} points, against {100 * weighted(others[single]):.2f} of {single}, "
        f"the best single other method; it leads by {100 * weighted(gap):.2f} ({100 * low:.2f} to {100 * high:.2f})",
    }


def losses(cells: pd.DataFrame, method: str) -> pd.Series:
    """What `method` loses in each cell and seed to the one that the other seeds would have chosen."""
    seeds = cells.index.unique("seed")
    found = []
    for seed in seeds:
        elsewhere = cells[cells.index.get_level_values("seed") != seed] if len(seeds) > 1 else cells
        best = (
            elsewhere.groupby(level=["network", "protocol", "label", "shift"], sort=False)
            .mean()
            .idxmax(axis=1)
        )
        here = cells.xs(seed, level="seed", drop_level=False)
        chosen = [best[tuple(key[:4])] for key in here.index]
        best_here = here.to_numpy()[range(len(here)), [here.columns.get_loc(name) for name in chosen]]
        found.append(pd.Series(best_here, here.index) - here[method])
    return pd.concat(found)


def weighted(losses: pd.Series) -> float:
    return float(losses.groupby(level="protocol", sort=False).mean().mean())


def clean(cells: pd.DataFrame) -> dict[str, Any]:
    """On clean images: not below Standard by more than 0.3 points, in any scenario."""
    rows = cells.xs("clean", level="shift")
    lead = (rows[PACE] - rows[STANDARD]).groupby(level=["network", "protocol", "label"], sort=False).mean()
    worst = lead.idxmin()
    below = int((lead < CLEAN).sum())
    return {
        "holds": not below,
        "mean": float(lead.mean()),
        "worst": float(lead.min()),
        "where": list(worst),
        "below": below,
        "sentence": f"{100 * lead.mean():+.2f} points from Standard on average; below {100 * CLEAN:.1f} in "
        f"{below} of {len(lead)} scenarios; worst {100 * lead.min():+.2f}, {worst[2]} on {worst[0]}",
    }


ABLATIONS: dict[str, dict[str, Any]] = {
    "no learning": {"learn": False},
    "no gate": {"gate": False},
    "never settles": {"images": 0},
}


@app.command()
def ablations(
    network: str = "fashion_resnet",
    batches: int = 21,
    seed: int = 1,
    to: Path = RESULTS / "pace-ablations.json",
) -> None:
    """Parts of pace left out, beside Standard, settle and an oracle that knows the best of them in each cell; also on
    streams whose classes come one after the other, and whose shift changes."""
    model = models.load(network)
    variants = [
        (PACE, {**settings, "label": label, "times_as": PACE}) for label, settings in ABLATIONS.items()
    ]
    results = evaluate(
        model,
        made_streams(model, batches, seed),
        [STANDARD, "settle", PACE, *variants],
        [Discrete(utilisation=0.5), Continuous(threshold_x=5), Amortised(budget_x=0.25)],
        device="cpu",
        seed=seed,
    )
    found = results.utilities
    table = found.pivot_table(index=["shift", "label"], columns="method", values="utility", sort=False)
    table["oracle"] = table.max(axis=1)
    rows = json.loads(table.round(4).reset_index().to_json(orient="records"))
    about = {"network": network, "batches": batches, "seed": seed}
    to.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    console.print((100 * table).round(1).to_string())


def made_streams(model: Any, batches: int, seed: int) -> dict[str, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Clean, two shifts, one of them with its classes in order, and one shift after the other."""
    found = {}
    for name, shift in data.open("fashion", shifts=["clean", "contrast", "pixelate"]).items():
        stream = data.open_stream(shift, model.preprocessing, seed=seed, limit_batches=batches, workers=0)
        found[name] = [(stream.batch(i), torch.from_numpy(stream.labels(i))) for i in range(batches)]
    images, labels = (torch.cat(parts) for parts in zip(*found["contrast"], strict=True))
    order = labels.argsort(stable=True)
    in_order = list(zip(images[order].split(64), labels[order].split(64), strict=True))
    third = batches // 3
    changing = [batch for name in ("clean", "contrast", "pixelate") for batch in found[name][:third]]
    return {**found, "contrast, classes in order": in_order, "clean, contrast, pixelate": changing}


@app.command()
def latency(
    device: Device = "cpu",
    networks: Names = "fashion_resnet,fashion_vit",
    rounds: int = 60,
    threads: int = 1,
    to: Path | None = None,
) -> None:
    """A settled network beside Standard, in turn, on the same batch."""
    if device == "cpu":
        torch.set_num_threads(threads)
    rows = []
    for network in networks.split(","):
        model = models.load(network, pretrained=network in NETWORKS).to(device)
        stream = data.open_stream(
            data.open("fashion", shifts=["contrast"])["contrast"],
            model.preprocessing,
            limit_batches=4,
            workers=0,
        )
        batches = [stream.batch(index).to(device) for index in range(4)]
        methods = {name: create(name, model) for name in (STANDARD, "settle", PACE)}
        hurry = Moment(0.0, 0.0, baseline_ms=1.0, threshold_ms=1.001)
        for name, method in methods.items():
            told = (hurry,) if name == PACE else ()
            for x in batches * 2:
                method.predict(x, *told)
                method.adapt(*told)
        times: dict[str, list[float]] = {name: [] for name in methods}
        for number in range(rounds):
            for name, method in methods.items():
                told = (hurry,) if name == PACE else ()

                def served(method: Any = method, told: Any = told, x: Any = batches[number % 4]) -> None:
                    method.predict(x, *told)
                    method.adapt(*told)

                times[name].append(timed(served, device)[1])
        standard = float(np.median(times[STANDARD]))
        rows += [
            {"network": network, "method": name, "ratio": float(np.median(taken)) / standard}
            for name, taken in times.items()
        ]
    for row in rows:
        console.print(f"{row['network']:16} {row['method']:10} {row['ratio']:.3f} x Standard")
    kind = torch.cuda.get_device_name() if device.startswith("cuda") else f"cpu, {threads} thread(s)"
    path = to or RESULTS / f"pace-latency-{device}.json"
    path.write_text(
        json.dumps({"device": kind, "rounds": rounds, "rows": rows}, indent=1) + "\n", encoding="utf-8"
    )


def page() -> Iterator[str]:
    yield "Pace"
    for figures in committed("pace-bundled").values():
        yield from judgement(figures)
    yield "## Parts left out, and streams that mislead"
    for figures in committed("pace-ablations").values():
        yield (
            f"`python benchmarks/pace.py ablations`: {figures['about']['network']}, {figures['about']['batches']} "
            "batches, one seed, utility in percent. The oracle knows the best of them in each cell."
        )
        yield by_stream(figures["rows"])
    yield "## What a settled network costs"
    yield (
        "`python benchmarks/pace.py latency`: time of predict() and adapt() over Standard's, in turn in one run, "
        "medians."
    )
    yield markdown_table(
        ("device, network", "method", "× Standard"),
        (
            (f"{figures['device']}, {row['network']}", row["method"], f"{row['ratio']:.3f}")
            for figures in committed("pace-latency-*").values()
            for row in figures["rows"]
            if row["method"] != STANDARD
        ),
    )


def judgement(figures: dict[str, Any]) -> Iterator[str]:
    """Give the three criteria, then the mean utility of every method by network and scenario."""
    about = figures["about"]
    yield (
        f"`python benchmarks/pace.py run` and `judge`: {about['batches']} batches of 64, seeds "
        f"{', '.join(map(str, about['seeds']))}, {', '.join(about['shifts'])}, {about['scenarios']} scenarios."
    )
    yield ABOUT_CLOCK
    rows = ((what, "holds" if figures[name]["holds"] else "**fails**") for name, what in CRITERIA.items())
    found = (figures[name]["sentence"] for name in CRITERIA)
    yield markdown_table(
        ("criterion", "", "found"), ((*row, one) for row, one in zip(rows, found, strict=True))
    )
    regrets = (f"{name} {in_percent(value)}" for name, value in figures["regret"]["by_protocol"].items())
    yield f"Regret by protocol, points: {', '.join(regrets)}."
    yield "Mean utility in percent over shifts and seeds; the best of a row is bold."
    for network in dict.fromkeys(row["network"] for row in figures["table"]):
        own = [row for row in figures["table"] if row["network"] == network]
        names = [name for name in about["methods"] if own[0].get(name) is not None]
        yield f"## {network}"
        yield markdown_table(("", *names), ((row["label"], *_bold_best(row, names)) for row in own))


def _bold_best(row: dict[str, Any], names: list[str]) -> list[str]:
    best = max(row[name] for name in names)
    return [f"**{in_percent(row[name])}**" if row[name] == best else in_percent(row[name]) for name in names]


def by_stream(rows: list[dict[str, Any]]) -> str:
    """Return utilities in percent, a line for each stream and scenario."""
    names = [name for name in rows[0] if name not in ("shift", "label")]
    lines = ((f"{row['shift']}: {row['label']}", *(in_percent(row[name]) for name in names)) for row in rows)
    return markdown_table(("stream: scenario", *names), lines)


CRITERIA = {
    "floor": "never 0.5 points below Standard, mean over shifts",
    "regret": "regret at most 0.5 points, and better than any other single method",
    "clean": "clean images: never 0.3 points below Standard",
}
ABOUT_CLOCK = """\
Times are those of one core of a CPU that nothing else used (`run --profile-s 180`). Predictions of Standard
and Pace were computed on a CPU under that clock, those of the other methods before, on an H200 (`run --device
cuda --clock DIR`; fashion_vit on brightness, under the presets, on a CPU). `judge --out` takes several
folders, of which the last counts.

The criterion for clean images fails under a deadline of 1.5 λ at full load, and in bursts. Pace does there
what Standard does, and looks at a fourth of its predictions (0.4 ms of 16); the profile's two times of that
same prediction differ by 0.4 and 0.8 %, which is about its error. At full load so little decides how many
answers are late: Standard itself lies between 57 and 93 % there, by the order of the stream."""


if __name__ == "__main__":
    script(app, page)
