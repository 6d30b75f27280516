"""One file per dataset. Every module here is imported when datasets are first asked for by name."""
