"""Write the results of tempora-fashion-v1 into benchmarks/results/suite.md, from runs of its two parts.

    tempora run tempora-fashion-v1/resnet
    tempora run tempora-fashion-v1/vit
    python recipes/suite_table.py

Per method: offline accuracy on the clean images, then utility under each protocol, the mean over the four corruptions
and over the settings of the grid; its rank in that column; and the share of cells (corruption, scenario) won.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tempora_tta import methods
from tempora_tta.errors import TemporaError
from tempora_tta.store import open_run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks/results/suite.md"
SUITE = "tempora-fashion-v1"
PROTOCOLS = ("offline", "discrete", "continuous", "amortised")


def scores(utilities: pd.DataFrame) -> pd.DataFrame:
    """Per method: clean accuracy, mean utility per protocol, share of cells won."""
    corrupted = utilities[utilities["shift"] != "clean"]
    clean = utilities[(utilities["shift"] == "clean") & (utilities["protocol"] == "offline")]
    table = pd.DataFrame({"clean": clean.set_index("method")["utility"]})
    means = corrupted.pivot_table(index="method", columns="protocol", values="utility")
    table[list(PROTOCOLS)] = means[list(PROTOCOLS)]
    table["wins"] = (corrupted["rank"] == 1).groupby(corrupted["method"]).mean()
    return table.sort_values("offline", ascending=False)


def markdown(table: pd.DataFrame) -> str:
    """Percent, with the rank in each protocol behind the utility."""
    ranks = table[list(PROTOCOLS)].rank(ascending=False, method="min").astype(int)
    lines = [
        "| method | clean | offline | discrete | continuous | amortised | cells won |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in table.iterrows():
        columns = [f"{100 * row[p]:.1f} ({ranks.loc[name, p]})" for p in PROTOCOLS]
        label = methods.get(str(name)).label
        lines.append(
            f"| {label} | {100 * row['clean']:.1f} | {' | '.join(columns)} | {100 * row['wins']:.0f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for part in ("resnet", "vit"):
        results = open_run(ROOT / "runs" / SUITE / part)
        if results.manifest.get("suite") != f"{SUITE}/{part}" or not results.manifest["finished"]:
            raise TemporaError(f"{results.path} is no finished run of {SUITE}/{part}: run it first")
        before, found, rest = page.partition(f"<!-- {part} -->\n")
        assert found, part
        page = (
            before + found + markdown(scores(results.utilities)) + "\n" + rest[rest.index("<!-- end -->") :]
        )
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
