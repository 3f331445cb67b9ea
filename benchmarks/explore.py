"""How fast and how exact is exploration: agent steps, running divergences, and a learner of another library."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

import condcs
from condcs.explore import TransitionBuffer, make_agent, make_environment
from condcs_reproduction.exploration_environments import compiled_environment
from condcs_reproduction.exploration_rollouts import paper_settings, rollout

BUFFER = 2_000


def transitions(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States of unit range with three actions, and next states."""
    state = rng.random((n, 2))
    action = rng.integers(-1, 2, size=(n, 1))
    return np.concatenate([state, action], axis=1), np.clip(
        state + 0.05 * action + 0.02 * rng.normal(size=(n, 2)), 0, 1
    )


def speed() -> None:
    """Agent steps per second, and the running divergence against estimating it afresh; one core, buffer 2,000."""
    rng = np.random.default_rng(0)
    settings = paper_settings("mountain-car", "dtg-cs")
    environment = compiled_environment("mountain-car", rng=0)
    rollout(environment, settings, steps=3, rng=0)
    print(f"DTG-CS on the mountain car, buffer of {BUFFER:,}, one core")
    steps = 20_000
    start = time.process_time()
    done = rollout(environment, settings, steps=steps, until_goal=False, rng=0)
    per_second = done.steps / (time.process_time() - start)
    print(f"  compiled rollout                  {per_second:8,.0f} steps/s ({done.centres:,} centres)")
    gym = make_environment("mountain-car")
    agent = make_agent("dtg-cs", gym, rng=0)
    observation, _ = gym.reset(seed=0)
    for t in range(6_000):
        if t == 3_000:
            start = time.process_time()
        observation, reward, terminated, _, _ = gym.step(agent.act(observation))
        agent.learn(observation, float(reward), terminated)
        if terminated:
            observation, _ = gym.reset()
    print(f"  agent in gymnasium, full buffer   {3_000 / (time.process_time() - start):8,.0f} steps/s")
    x, y = transitions(BUFFER + 3_000, rng)
    buffer = TransitionBuffer(BUFFER, 3, 2, bandwidth_x=0.1, bandwidth_y=0.1)
    for t in range(BUFFER):
        buffer.push(x[t], y[t])
    buffer.divergence()
    start = time.process_time()
    for t in range(BUFFER, BUFFER + 3_000):
        buffer.push(x[t], y[t])
        value = buffer.divergence()
    running = (time.process_time() - start) / 3_000
    old, new = buffer.halves()
    afresh, again = _seconds(lambda: condcs.conditional_cs(*old, *new, bandwidth_x=0.1, bandwidth_y=0.1))
    dense, _ = _seconds(lambda: _dense(*old, *new, 0.1))
    print(f"push and divergence, buffer of {BUFFER:,}")
    print(f"  running sums                      {1e6 * running:8.0f} microseconds (error {abs(value - again):.1e})")
    print(f"  condcs.conditional_cs             {1e6 * afresh:8.0f} microseconds = {afresh / running:.0f} x")
    print(f"  dense Gram matrices               {1e6 * dense:8.0f} microseconds = {dense / running:.0f} x")


def _seconds(function) -> tuple[float, float]:
    function()
    times = []
    with condcs.config_context(n_threads=1):
        for _ in range(5):
            start = time.process_time()
            value = function()
            times.append(time.process_time() - start)
    return float(np.median(times)), float(value)


def _dense(xp, yp, xq, yq, width: float) -> float:
    from benchmarks.core import dense

    return dense(xp, yp, xq, yq, width, width)


def literal() -> None:
    """The algorithm as printed: greedy from the value 0, with D as reward."""
    print("DTG-CS as printed (initial value 0), 10 seeds, 20,000 steps: runs that reach the goal")
    for name in ("mountain-car", "pendulum", "maze"):
        reached = {}
        for initial in (0.0, 500.0):
            settings = replace(paper_settings(name, "dtg-cs"), initial_value=initial)
            runs = [
                rollout(compiled_environment(name, rng=s), settings, steps=20_000, rng=s).reached for s in range(10)
            ]
            reached[initial] = sum(runs)
        print(f"  {name:14s} from 0: {reached[0.0]:2d} of 10; from 500: {reached[500.0]:2d} of 10")


STREAMS = ("uniform", "clustered", "discrete", "sticky", "jumping")


def stream(name: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Streams of transitions, friendly and not."""
    if name == "uniform":
        x = rng.random((n, 2))
        return x, x + 0.1 * rng.normal(size=(n, 2))
    if name == "clustered":
        centre = rng.normal(size=(5, 2))[rng.integers(5, size=n)]
        return centre + 0.02 * rng.normal(size=(n, 2)), centre[:, ::-1] + 0.05 * rng.normal(size=(n, 2))
    if name == "discrete":
        x = rng.integers(3, size=(n, 2)).astype(float)
        return x, x[:, ::-1] + rng.integers(2, size=(n, 2))
    if name == "sticky":
        place = np.cumsum(rng.random(n) < 0.02) % 11
        x = np.stack([0.71 * place, np.zeros(n)], axis=1)
        return x, np.where(rng.random((n, 1)) < 0.5, x, -x)
    place = rng.choice([0.0, 30.0, 31.0, -80.0], size=n)[np.cumsum(rng.random(n) < 0.01)]
    x = np.stack([place, rng.random(n)], axis=1)
    return x, x + rng.random((n, 2))


def exact(steps: int = 20_000, size: int = 100) -> None:
    """Compare the running divergences with the core's at every step."""
    measures = ("conditional_cs", "conditional_euclidean", "joint_mmd")
    print(f"largest difference from the core over {steps:,} steps, buffer of {size} (relative above 1)")
    print(f"  {'stream':10s}" + "".join(f"{m:>24s}" for m in measures))
    for name in STREAMS:
        x, y = stream(name, steps, np.random.default_rng(0))
        buffer = TransitionBuffer(size, 2, 2, bandwidth_x=0.1, bandwidth_y=0.2)
        worst = dict.fromkeys(measures, 0.0)
        for t in range(steps):
            buffer.push(x[t], y[t])
            if t < 3:
                continue
            old, new = buffer.halves()
            for measure in measures:
                afresh = float(getattr(condcs, measure)(*old, *new, bandwidth_x=0.1, bandwidth_y=0.2))
                error = abs(buffer.divergence(measure) - afresh) / max(1.0, abs(afresh))
                worst[measure] = max(worst[measure], error)
        print(f"  {name:10s}" + "".join(f"{worst[m]:24.1e}" for m in measures), flush=True)


PPO_ROWS, PPO_STEPS, PPO_LIMIT, PPO_SEEDS = 6, 20_480, 100, 10


def learner(seed: int, *, weight: float, form: str = "surprise", steps: int = PPO_STEPS, rows: int = PPO_ROWS) -> float:
    """Train PPO of Stable-Baselines3 in a maze with a reward at the exit; return the share of episodes ending there."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor

    from condcs.explore import IntrinsicReward

    torch.set_num_threads(1)
    maze = make_environment("maze", rows=rows, maze_rng=seed, time_limit=PPO_LIMIT)
    counted = Monitor(maze)
    environment: gymnasium.Env = IntrinsicReward(counted, weight=weight, form=form, size=1_000, bandwidth=0.1)
    model = PPO("MlpPolicy", environment, n_steps=512, batch_size=128, n_epochs=4, gamma=0.99, seed=seed, device="cpu")
    model.learn(steps)
    return float(np.mean(np.array(counted.get_episode_rewards()) > 0))


def ppo(seeds: int = PPO_SEEDS) -> None:
    """PPO with and without the bonus on a sparse-reward maze, with the interval of the difference."""
    print(f"PPO, {PPO_ROWS} x {PPO_ROWS} mazes, reward at the exit alone, {PPO_STEPS:,} steps, {seeds} seeds")
    shares = {}
    for label, weight in (("without bonus", 0.0), ("with bonus", 0.05)):
        shares[label] = np.array([learner(seed, weight=weight) for seed in range(seeds)])
        print(f"  {label:14s} episodes that end at the exit: {shares[label].mean():.3f}  {np.round(shares[label], 2)}")
    difference = shares["with bonus"] - shares["without bonus"]
    half = 2.262 * difference.std(ddof=1) / math.sqrt(len(difference)) if len(difference) > 1 else math.inf
    mean = difference.mean()
    print(f"  difference {mean:+.3f}, 95% interval [{mean - half:+.3f}, {mean + half:+.3f}]")


def main() -> None:
    speed()
    literal()
