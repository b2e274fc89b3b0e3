"""Look up what a model's tokens cost; an unknown model counts as more expensive than any known one."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from hardwon.types import frozen

_DATE_SUFFIX = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest)\Z")


@frozen
class Price:
    """Dollars per million tokens, and the reasoning effort to ask for if the model takes one."""

    input_dollars: float
    cached_dollars: float
    output_dollars: float
    effort: str = ""


def find_price(model: str) -> Price:
    """Return the price of a model, ignoring a date suffix and a vendor prefix."""
    table = _load_table()
    name = _DATE_SUFFIX.sub("", model.rpartition("/")[2])
    row = table["models"].get(model) or table["models"].get(name) or table["unknown"]
    return Price(row["in"], row["cached"], row["out"], row.get("effort", ""))


def compute_cost(model: str, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
    """Return dollars; `tokens_in` includes the cached ones."""
    price = find_price(model)
    uncached = max(tokens_in - tokens_cached, 0)
    return (
        uncached * price.input_dollars + tokens_cached * price.cached_dollars + tokens_out * price.output_dollars
    ) / 1_000_000


@lru_cache(maxsize=1)
def _load_table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("hardwon.distil.llm").joinpath("prices.json").read_text("utf-8"))
    return table
