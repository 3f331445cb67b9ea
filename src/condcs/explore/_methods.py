"""The methods that are compared, and their settings: one set per environment, and what each method changes in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from condcs._core.checks import check_choice
from condcs._core.errors import public
from condcs.explore._environments import EnvironmentName

Method = Literal[
    "random", "q-learning", "maxent", "maxent-relative", "dtg", "dtg-kl", "dtg-mmd", "dtg-cs", "dtg-local", "control"
]

Reward = Literal[
    "nothing",
    "extrinsic",
    "goal",
    "entropy",
    "relative_entropy",
    "local",
    "conditional_cs",
    "conditional_euclidean",
    "joint_mmd",
    "conditional_kl",
    "conditional_mmd",
]
REWARDS: tuple[Reward, ...] = get_args(Reward)
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
        What the agent learns from: "nothing", "extrinsic" (the environment's reward), "goal" (1 at the goal, else 0),
        "entropy" (minus the log density of visited states), "relative_entropy" (the same, relative to the uniform
        density), "local" (local divergence and novelty; see `IntrinsicReward`), or a divergence between the halves of
        the buffer, by its name in `TransitionBuffer.divergence`.
    buffer : int
        Transitions of both halves of the buffer.
    refresh_every : int
        Steps between two estimates of the conditional KL.
    bins : int
        Bins of each column of the state in the entropy reward (of a maze: its cells).
    rollout_steps : int
        Steps between two updates of the density in the entropy reward.
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
    bins: int = 20
    rollout_steps: int = 1_000
    change: float = 0.25
    novelty: float = 2.0

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a dict."""
        return asdict(self)


ENVIRONMENTS: dict[EnvironmentName, Hyperparameters] = {
    "mountain-car": Hyperparameters(learning_rate=0.5, discount=0.9),
    "pendulum": Hyperparameters(learning_rate=1e-3, discount=0.99),
    "maze": Hyperparameters(learning_rate=0.2, discount=0.9),
}
"""Settings that all methods share in each environment."""

METHODS: dict[Method, str] = {
    "random": "Random",
    "q-learning": "Q-learning",
    "maxent": "MaxEnt",
    "maxent-relative": "MaxEnt, relative to uniform",
    "dtg": "DTG",
    "dtg-kl": "DTG-KL",
    "dtg-mmd": "DTG-MMD",
    "dtg-cs": "DTG-CS",
    "dtg-local": "DTG-local",
    "control": "control: D = 0, optimism only",
}
"""Methods, and their names in tables."""

_DIVERGENCES: dict[Method, Reward] = {
    "dtg": "conditional_euclidean",
    "dtg-kl": "conditional_kl",
    "dtg-mmd": "joint_mmd",
    "dtg-cs": "conditional_cs",
    "dtg-local": "local",
    "control": "nothing",
}


@public
def hyperparameters(environment: EnvironmentName, method: Method) -> Hyperparameters:
    """Return the settings of a method in one of the paper's environments.

    Parameters
    ----------
    environment : {"mountain-car", "pendulum", "maze"}
        Which environment.
    method : {"random", "q-learning", "maxent", "maxent-relative", "dtg", "dtg-kl", "dtg-mmd", "dtg-cs", "dtg-local",
            "control"}
        Which method.

    Returns
    -------
    Hyperparameters
        Change them with `dataclasses.replace`.

    Examples
    --------
    >>> hyperparameters("mountain-car", "dtg-cs").reward
    'conditional_cs'
    """
    check_choice("environment", environment, tuple(ENVIRONMENTS))
    check_choice("method", method, tuple(METHODS))
    base = ENVIRONMENTS[environment]
    if method == "random":
        return replace(base, epsilon=1.0, initial_value=0.0)
    if method == "q-learning":
        # The pendulum's reward is dense and negative: an initial value of 0 is optimistic, without random actions.
        dense = environment == "pendulum"
        return replace(base, epsilon=0.0 if dense else 0.5, initial_value=0.0, reward="extrinsic" if dense else "goal")
    if method in ("maxent", "maxent-relative"):
        reward: Reward = "entropy" if method == "maxent" else "relative_entropy"
        return replace(base, epsilon=0.1, initial_value=0.0, reward=reward)
    return replace(base, reward=_DIVERGENCES[method])
