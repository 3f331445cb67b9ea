"""Two tables of house prices with a known change, for the tests of the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd


def house_prices(rows: int, seed: int, *, changed: bool = False, bigger: float = 0.0) -> pd.DataFrame:
    """Prices follow area and district; if `changed`, those of large houses at the harbour rise by half."""
    rng = np.random.default_rng(seed)
    area = rng.normal(100 + bigger, 25, rows)
    district = rng.choice(["north", "south", "harbour"], rows, p=[0.35, 0.35, 0.3])
    price = 2.5 * area + 40 * (district == "harbour") + rng.normal(0, 15, rows)
    price = np.where(changed & (district == "harbour") & (area > 100), 1.5 * price, price)
    sold = np.where(price > 270, "yes", "no")
    return pd.DataFrame({"area": area, "district": district, "price": price, "sold": sold})
