"""How a weight is computed: the same weight as on the Inspect page, also of a text that was cut, and its steps add up."""

import math
from typing import Any

import pytest

from regard.studio.pages.look.inspection import look, tile
from regard.studio.pages.steps.real_head import real_head


@pytest.mark.parametrize("repeat", [1, 30], ids=["whole", "cut"])
def test_the_weight_is_the_one_of_the_inspect_page(state: Any, chinese: dict[str, Any], repeat: int) -> None:
    name, text = next(n for n in chinese if "transformer" in n), "我爱猫。" * repeat
    told = look(state, name, text)
    assert (told["read"] < told["whole"]) == (repeat > 1)
    entries = [entry for entry in told["payload"]["seen"] if entry["kind"] in ("encoder", "cross", "causal")]
    assert {entry["kind"] for entry in entries} >= {"cross", "causal"}
    for entry in entries:
        query = entry["L"] - 1
        area = {"rows": [query, query + 1], "cols": [0, entry["S"]]}
        seen = tile(state, told["sight"], entry["layer"], entry["call"], 0, **area)["weights"]
        steps = real_head(state, name, text, entry["layer"], 0, query, kind=entry["kind"])
        assert steps["weights"] == pytest.approx(seen, abs=1e-5)
        key = steps["key"]
        assert steps["terms"]["rest_sum"] + sum(steps["terms"]["numbers"]) == pytest.approx(steps["product"], abs=1e-4)
        assert math.exp(steps["scores"][key] - steps["largest"]) / steps["total"] == pytest.approx(steps["weights"][key], abs=1e-5)
