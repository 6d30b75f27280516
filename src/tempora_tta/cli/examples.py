"""Two examples for every command and group of commands: its --help ends with them, and so does its entry in the docs.

A test parses each of them, so that none names an option that is gone.
"""

from __future__ import annotations

from typing import NamedTuple

import typer


class Example(NamedTuple):
    arguments: str
    """Text after the command."""
    does: str


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "audit": (
        Example("runs/mine --cells 5", "five cells made again, one pass each"),
        Example("runs/mine --cells 3 --realtime", "three cells in real time, next to what was simulated"),
    ),
    "check": (
        Example("tent --model fashion_resnet", "does Tent keep what the engine builds on?"),
        Example("my_methods:Mine --set lr=0.001", "the same for a method of your own, with a setting"),
    ),
    "compare": (
        Example("runs/before runs/after", "what changed beyond noise"),
        Example("runs/mine --published rn50_inc", "side by side with the paper's tables"),
    ),
    "data": (
        Example("fetch cifar10_c --to ~/data", "download, check and unpack a published dataset"),
        Example("corrupt photos photos-c --corruptions noise", "shifts made of your own clean images"),
    ),
    "data corrupt": (
        Example("photos photos-c --corruptions noise", "noise of your own clean images, severity 5"),
        Example("photos photos-c --corruptions fog,snow --severity 3", "two corruptions, milder"),
    ),
    "data fetch": (
        Example("cifar10_c --to ~/data", "download, check and unpack; the same command resumes"),
        Example("imagenet_c --to ~/data --only noise", "one archive of several"),
    ),
    "data verify": (
        Example("~/data/imagenet_c", "layout, counts and published checksums"),
        Example("photos --decode", "open every image too"),
    ),
    "demo": (
        Example("", "the ranking on bundled images, with this machine's times"),
        Example(
            "--clock published:rn50_inc", "the same with the paper's latencies: no profile, always the same"
        ),
    ),
    "export": (
        Example(
            "fashion_resnet adabn --out on-device --batch-size 4,64", "two batch sizes, for ONNX Runtime"
        ),
        Example(
            "fashion_resnet tent --frozen-after 20 --out frozen", "what Tent has learned after 20 batches"
        ),
    ),
    "list": (
        Example("methods", "every method, its family and what it changes"),
        Example("datasets", "every dataset with size, licence and source"),
    ),
    "merge": (
        Example("runs/seed1 runs/seed2 --out runs/both", "the passes of two seeds, for one run of both"),
        Example("runs/part-* --out runs/all", "the parts that several machines made"),
    ),
    "pack": (
        Example("runs/mine", "one checked file to send"),
        Example("runs/mine --no-traces --out small.tempora", "the tables without the batches"),
    ),
    "profile": (
        Example("--model fashion_resnet --out laptop.json", "how long every method takes here, as a clock"),
        Example("--model resnet50 --methods standard,tent --profile-s 120", "two methods, two minutes"),
    ),
    "recommend": (
        Example(
            "runs/mine --fps 30 --cameras 8 --within-ms 200", "eight cameras on one device, 200 ms to answer"
        ),
        Example("runs/mine --rate-hz 600 --p99-ms 50", "600 images per second at random, 99 % within 50 ms"),
        Example("runs/mine --p99-ms 50", "no pace: the most images per second that each method takes"),
    ),
    "report": (
        Example("runs/mine --open", "the whole run as one page"),
        Example("runs/mine --figures figures --format pdf", "the figures of the paper, as PDF"),
    ),
    "reproduce": (
        Example("all --out repro", "what follows from the printed times, without data"),
        Example("show table:discrete-all-rho --numbers paper", "a table of the paper as it prints it"),
    ),
    "run": (
        Example(
            "--model fashion_resnet --dataset fashion --methods standard,adabn,tent --out runs/mine",
            "three methods on the bundled images; the same command resumes",
        ),
        Example("configs/resnet50-imagenet-c.yaml --root ~/data/imagenet_c", "the paper's grid"),
        Example(
            "runs/mine --scenario '{protocol: discrete, interval_ms: 60}'",
            "one more scenario in a folder that is there; what was made stays",
        ),
        Example(
            "--model fashion_resnet --dataset fashion --grid server --dry-run",
            "what would be run, and how long",
        ),
    ),
    "show": (
        Example("runs/mine", "who wins where, and how sure that is"),
        Example("mine.tempora", "the same of a pack that was sent to you, checked"),
        Example("runs/gpu runs/pi --table sweep --format csv", "two runs as one table, with a column run"),
        Example("runs/mine --table winners --format latex", "any table of the paper, ready to paste"),
    ),
    "tune": (
        Example("--methods tent,eta --trials 6 --out recipes.json", "equal trials, chosen without labels"),
        Example("--methods tent --trials 6 --select labels", "with labels, as a ceiling"),
    ),
}


def add_examples(group: typer.Typer, above: str = "") -> None:
    """End the --help of every command and of every group with its examples."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = f"{above}{command.name or command.callback.__name__}"
        command.epilog = as_epilog(name)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        name = f"{above}{inner.typer_instance.info.name}"
        add_examples(inner.typer_instance, f"{name} ")
        inner.typer_instance.info.epilog = as_epilog(name)


def as_epilog(name: str) -> str:
    """Return the examples as paragraphs, as Typer lays them out."""
    lines = [f"{line(name, example)}  # {example.does}" for example in EXAMPLES.get(name, ())]
    return "\n\n".join(["Examples:", *lines]) if lines else ""


def line(name: str, example: Example) -> str:
    return f"tempora {name} {example.arguments}".rstrip()
