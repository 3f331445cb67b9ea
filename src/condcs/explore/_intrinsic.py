"""Intrinsic rewards for any agent: gymnasium wrappers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.checks import check_choice
from condcs._core.errors import ParameterError
from condcs._core.vocabulary import named, setting
from condcs.explore._buffer import BUFFER_MEASURES, BufferMeasure, TransitionBuffer
from condcs.explore._gymnasium_module import gymnasium
from condcs.explore._rewards import (
    DivergenceForm,
    DivergenceReward,
    LocalReward,
    TransitionReward,
    check_form_of_measure,
)
from condcs.explore._spaces import Encoder, States, state_range

RewardForm = Literal["local"] | DivergenceForm
FORMS: tuple[RewardForm, ...] = ("local", *get_args(DivergenceForm))
"""Local change and novelty; the divergence after a transition; its change by it; how new the transition itself is."""


@dataclass(frozen=True)
class LocalForm:
    """The form "local" of a reward with other weights.

    Attributes
    ----------
    change : float
        Weight of the local divergence.
    novelty : float
        Weight of novelty; with 0 only changes are rewarded.
    """

    change: float = 0.25
    novelty: float = 2.0

    def __post_init__(self) -> None:
        for name in ("change", "novelty"):
            _check_finite(name, getattr(self, name))


def _check_finite(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ParameterError(f"{named(name)} must be a finite number, got {value!r}. Pass e.g. {setting(name, 1.0)}.")


_Wrapper: Any = gymnasium().Wrapper
_VectorWrapper: Any = gymnasium().vector.VectorWrapper


class _Curious:
    """What both wrappers share: the constructor, and the rewards."""

    # Names of the spaces of a single environment, with the name of the space in braces.
    _spaces = "{}"

    def __init__(
        self,
        env: Any,
        *,
        weight: float = 1.0,
        extrinsic_weight: float = 1.0,
        size: int = 1_000,
        bandwidth: float = 0.1,
        measure: BufferMeasure = "conditional_cs",
        form: RewardForm | LocalForm = "local",
        encoder: Encoder | None = None,
        require_seed: bool = False,
    ) -> None:
        super().__init__(env)  # type: ignore[call-arg]
        _check_finite("weight", weight)
        _check_finite("extrinsic_weight", extrinsic_weight)
        self.weight, self.extrinsic_weight, self.require_seed = float(weight), float(extrinsic_weight), require_seed
        check_choice("measure", measure, BUFFER_MEASURES)
        check_form_of_measure("local" if isinstance(form, LocalForm) else check_choice("form", form, FORMS), measure)
        observations, actions = (
            getattr(env, self._spaces.format(name)) for name in ("observation_space", "action_space")
        )
        self._space = States(*state_range(observations, encoder), encoder)
        spaces = gymnasium().spaces
        if not isinstance(actions, (spaces.Discrete, spaces.Box)):
            raise ParameterError(f"the action space must be discrete or a box, got {actions}. Flatten it first.")
        is_box = isinstance(actions, spaces.Box)
        # Discrete actions are unit vectors.
        self._first = 0 if is_box else int(actions.start)
        self._unit: Any = None if is_box else np.eye(int(actions.n))
        dim, dim_action = self._space.dim_state, int(np.prod(actions.shape) if is_box else actions.n)
        self._reward: TransitionReward
        if isinstance(form, LocalForm) or form == "local":
            local = form if isinstance(form, LocalForm) else LocalForm()
            self._reward = LocalReward(
                size, dim, dim_action, bandwidth=bandwidth, change=local.change, novelty=local.novelty
            )
        else:
            buffer = TransitionBuffer(size, dim + dim_action, dim, bandwidth_x=bandwidth, bandwidth_y=bandwidth)
            self._reward = DivergenceReward(buffer, measure=measure, form=form)
        self.buffer = self._reward.buffer
        self._states: list[Any] | None = None

    def intrinsic(self, state: Any, action: Any, upcoming: Any) -> float:
        """Record a transition and return its intrinsic reward."""
        vector = np.reshape(action, -1) if self._unit is None else self._unit[int(action) - self._first]
        return self._reward.reward(state, vector, upcoming)

    def _check_seed(self, seed: Any) -> None:
        if self.require_seed and self._states is None and seed is None:
            raise ParameterError(
                "the environment must be seeded at its first reset (require_seed=True): without a seed no run can be "
                "repeated. Call reset(seed=0)."
            )

    def _combined(self, extrinsic: Any, intrinsic: Any) -> Any:
        return self.extrinsic_weight * extrinsic + self.weight * intrinsic


class IntrinsicReward(_Curious, _Wrapper):  # type: ignore[misc]
    """Add an intrinsic reward to that of every step: for changes of p(next state | state, action), and for novelty.

    ``info["intrinsic_reward"]`` holds the intrinsic reward alone.

    Parameters
    ----------
    env : gymnasium.Env
        Bounded observations of one dimension (or an `encoder`); discrete or continuous actions.
    weight : float
        The reward becomes ``extrinsic_weight * reward + weight * intrinsic``. Choose it by the size of the
        environment's own rewards; with 0 they stay as they are and the intrinsic reward is only reported.
    extrinsic_weight : float
        Weight of the environment's own rewards; with 0 the agent explores without them.
    size, bandwidth, encoder
        Transitions of the buffer, bandwidth of the kernels, and function from an observation to a vector with entries
        between 0 and 1.
    form : {"local", "level", "change", "surprise"} or LocalForm
        "local": `change` (0.25) times the conditional CS divergence of the older and the newer half of the buffer
        around (s, a), as far as it exceeds chance, plus `novelty` (2) times :math:`n^{-3/4}`, n being the number of
        arrivals in the buffer near the next state; ``LocalForm(change=..., novelty=...)`` has other weights.
        "level": the divergence of the halves, the paper's divergence-to-go. "change": its change by the step.
        "surprise": the log ratio of the densities of the next state given (s, a) in the newer and the older half.
    measure : {"conditional_cs", "conditional_euclidean", "joint_mmd", "conditional_mmd", "conditional_kl"}
        For "level" and "change".
    require_seed : bool
        Whether the first reset must have a seed, so that runs can be repeated.

    Notes
    -----
    The buffer is kept for the lifetime of the wrapper: all episodes are parts of one stream. A reset is not a
    transition.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the buffer keeps its transitions."""
        self._check_seed(seed)
        observation, info = self.env.reset(seed=seed, options=options)
        self._states = [self._space.state(observation)]
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step, record the transition and combine the rewards."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        upcoming = self._space.state(observation)
        assert self._states is not None
        intrinsic = self.intrinsic(self._states[0], action, upcoming)
        self._states = [upcoming]
        combined = self._combined(float(reward), intrinsic)
        return observation, combined, terminated, truncated, {**info, "intrinsic_reward": intrinsic}


class VectorIntrinsicReward(_Curious, _VectorWrapper):  # type: ignore[misc]
    """`IntrinsicReward` for vectorised environments: one buffer records the transitions of all, in their order.

    ``infos["intrinsic_reward"]`` holds one number per environment, 0 where an environment was reset in this step. The
    parameters are those of `IntrinsicReward`.
    """

    _spaces = "single_{}"

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start all environments; the buffer keeps its transitions."""
        self._check_seed(seed)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._states = [self._space.state(o) for o in observations]
        self._ended = np.zeros(self.num_envs, bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in every environment, record the transitions and combine the rewards."""
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        assert self._states is not None
        intrinsic = np.zeros(self.num_envs)
        ended = np.asarray(terminations) | np.asarray(truncations)
        mode = self.env.metadata.get("autoreset_mode")
        same_step = str(getattr(mode, "name", mode)).upper() == "SAME_STEP"
        for i, observation in enumerate(observations):
            seen = self._space.state(observation)
            if not self._ended[i]:
                last = self._space.state(infos["final_obs"][i]) if same_step and ended[i] else seen
                intrinsic[i] = self.intrinsic(self._states[i], actions[i], last)
            self._states[i] = seen
        # By default the step after the end of an episode resets the environment and ignores the action.
        self._ended = np.zeros_like(ended) if same_step else ended
        combined = self._combined(np.asarray(rewards, np.float64), intrinsic)
        return observations, combined, terminations, truncations, {**infos, "intrinsic_reward": intrinsic}
