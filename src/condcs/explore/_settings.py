"""Settings of agents."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from condcs.explore._buffer import BUFFER_MEASURES, BufferMeasure
from condcs.explore._kernel_td import KernelTD

Reward = Literal["nothing", "local"] | BufferMeasure
REWARDS: tuple[Reward, ...] = ("nothing", "local", *BUFFER_MEASURES)
"""What agents learn from."""


@dataclass(frozen=True)
class Hyperparameters:
    """Settings of an agent.

    Attributes
    ----------
    learning_rate, discount : float
        Learning rate and discount factor of the value function.
    bandwidth : float
        Bandwidth of all Gaussian kernels (value function, and x and y of the divergence), on states in the unit range
        and raw actions.
    merge_radius : float
        Distance up to which two states share a centre of the value function.
    dictionary : int
        Largest number of centres.
    initial_value : float
        Value of unknown states. It drives the exploration of all divergence-to-go methods and of the control.
    epsilon : float
        Probability of a random action; 1 is the random agent.
    reward : str
        What the agent learns from: "nothing", "local" (local divergence and novelty; see `IntrinsicReward`), or a
        divergence between the halves of the buffer, by its name in `TransitionBuffer.divergence`.
    buffer : int
        Transitions of both halves of the buffer.
    refresh_every : int
        Steps between two estimates of the conditional KL or MMD.
    memory : int
        Steps after which the value function forgets what was not tried again; 0: never (see `KernelTD`).
    change, novelty : float
        Weights of the local divergence and of novelty in the local reward. Values of about ``novelty / (1 - discount)``
        must not be far above the initial value: rewards of known places would hide unknown ones.
    """

    learning_rate: float
    discount: float
    bandwidth: float = 0.1
    merge_radius: float = 0.02
    dictionary: int = 20_000
    initial_value: float = 500.0
    epsilon: float = 0.0
    reward: Reward = "nothing"
    buffer: int = 2_000
    refresh_every: int = 50
    memory: int = 0
    change: float = 0.25
    novelty: float = 2.0

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a dict."""
        return asdict(self)

    def value_function(self, dim_state: int, actions: Any) -> KernelTD:
        """Return an untrained value function for states of `dim_state` numbers; `actions` has one row per action."""
        return KernelTD(
            dim_state,
            actions,
            bandwidth=self.bandwidth,
            learning_rate=self.learning_rate,
            discount=self.discount,
            initial_value=self.initial_value,
            merge_radius=self.merge_radius,
            capacity=self.dictionary,
            memory=self.memory,
        )
