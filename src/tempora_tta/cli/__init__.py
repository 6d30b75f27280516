"""The `tempora` command. Each subcommand lives in its own file and imports what it needs when it runs."""

from tempora_tta.cli.app import app, main

__all__ = ["app", "main"]
