"""The pendulum with a goal: gymnasium's own never ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condcs.explore.partner import gymnasium

_Wrapper: Any = gymnasium().Wrapper


class Upright(_Wrapper):  # type: ignore[misc]
    """Start hanging down, end within `reach` (radian) of upright; rewards stay gymnasium's."""

    def __init__(self, env: Any, reach: float = 0.2) -> None:
        super().__init__(env)
        self.reach = reach

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Hang down, at rest."""
        _, info = self.env.reset(seed=seed, options=options)
        self.unwrapped.state = np.array([math.pi, 0.0])
        return self.unwrapped._get_obs(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do a step of the pendulum and see whether it is upright."""
        observation, reward, _, truncated, info = self.env.step(action)
        angle = float(self.unwrapped.state[0])
        from_upright = ((angle + math.pi) % (2 * math.pi)) - math.pi
        return observation, float(reward), abs(from_upright) < self.reach, truncated, info
