"""Names that `import tempora_tta as tempora` offers: the public ones, and none that only the module itself needs."""

from __future__ import annotations

import tempora_tta as tempora


def test_a_notebook_is_offered_the_public_names_and_no_others() -> None:
    assert dir(tempora) == sorted(tempora.__all__)
    assert {"evaluate", "open_run", "deploy"} <= set(dir(tempora)), "lazy ones too"
    assert all(getattr(tempora, name) is not None for name in dir(tempora))
