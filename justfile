# Commands of this repository: `just NAME`, each also runs as it stands here.

# the tests, as CI runs them
test *args:
    pytest {{args}}

# linters, types and import contracts
lint:
    ruff check .
    ruff format --check .
    mypy
    lint-imports

# generated pages, then the site (pip install -e ".[docs]")
docs:
    python docs/generate.py
    mkdocs build --strict --quiet

# the ranking on bundled images
demo *args:
    tempora demo {{args}}
