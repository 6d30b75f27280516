"""The page: its HTML (Jinja), its style and its scripts. A package, so that they are installed with the rest."""
