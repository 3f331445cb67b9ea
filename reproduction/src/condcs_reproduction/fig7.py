"""Figure 7: the three environments, drawn, with what is known about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

ENVIRONMENTS = ("mountain-car", "pendulum", "maze")

PAPER: dict[str, dict[str, str]] = {
    "mountain-car": {"actions": "-1, 0, 1", "state": "position, velocity"},
    "pendulum": {"actions": "-1 to 1", "start": "hanging down"},
    "maze": {"actions": "left, right, up, down", "size": "20 x 20"},
}
"""What the text and the caption say."""


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """Each environment once per repeat; mazes differ."""
    return [Task(e, r, (i, r), {"environment": e}) for r in range(repeats) for i, e in enumerate(ENVIRONMENTS)]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Make an environment and describe it; of a maze also the walls and the shortest way."""
    from condcs_reproduction.exploration.gymnasium_environments import UPRIGHT_REACH
    from condcs_reproduction.exploration_environments import compiled_environment

    name = arguments["environment"]
    made = compiled_environment(name, rows=parameters["maze_rows"], rng=rng)
    numbers = made.actions[:, 0]
    if name == "mountain-car":
        return {
            "actions": ", ".join(f"{a:g}" for a in numbers),
            "state": "position, velocity",
            "start": f"at rest, position {made.start[0]:.2f}",
            "goal": "position 0.5",
        }
    if name == "pendulum":
        return {
            "actions": f"{numbers.min():g} to {numbers.max():g}",
            "state": "cosine and sine of the angle, speed",
            "start": "hanging down" if made.start[0] == math.pi and made.start[1] == 0 else "elsewhere",
            "goal": f"within {UPRIGHT_REACH} rad of upright",
        }
    rows, columns, _ = made.passages.shape
    return {
        "actions": "left, right, up, down",
        "state": "column, row",
        "start": "upper left",
        "goal": "lower right",
        "size": f"{rows} x {columns}",
        "shortest way": int(steps_from_start(made.passages)[-1, -1]),
        "passages": made.passages.tolist(),
    }


def steps_from_start(passages: IntArray) -> FloatArray:
    """Return the number of steps from the upper left cell of a maze to every cell; infinite where there is no path."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import shortest_path

    from condcs_reproduction.exploration.gymnasium_environments import MOVES

    rows, columns, _ = passages.shape
    row, column, action = np.argwhere(passages).T
    across, down = np.array(MOVES)[action].T
    ends = row * columns + column, (row + down) * columns + column + across
    graph = coo_matrix((np.ones(len(row)), ends), shape=(rows * columns, rows * columns))
    return np.asarray(shortest_path(graph, unweighted=True, indices=0)).reshape(rows, columns)


def summarise(experiment: Experiment, results: Results) -> Report:
    """Say what each environment is, beside what the paper says."""
    cells: dict[str, dict[str, Cell]] = {}
    columns = ("actions", "state", "start", "goal", "size")
    for environment in ENVIRONMENTS:
        runs = results.get(environment, {})
        if not runs:
            cells[environment] = dict.fromkeys(columns, MISSING)
            continue
        found, printed = next(iter(runs.values())), experiment.paper[environment]
        cells[environment] = {
            c: Cell(found[c], printed.get(c), _verdict(found[c], printed.get(c))) for c in columns if c in found
        }
        cells[environment].setdefault("size", Cell("one state at a time"))
    ways = [r["shortest way"] for r in results.get("maze", {}).values()]
    notes = ["Mountain car and pendulum are gymnasium's, without their time limit; the maze is condcs/Maze-v0."]
    if ways:
        notes.append(f"Shortest ways out of the mazes drawn: {min(ways)} to {max(ways)} steps ({len(ways)} mazes).")
    return Report(experiment.title, [Grid("The environments", "environment", columns, cells)], notes)


def _verdict(ours: str, paper: str | None) -> str:
    return "" if paper is None else "agrees" if ours == paper else "differs"


def picture(
    passages: IntArray,
    agent: tuple[int, int] | None = None,
    goal: tuple[int, int] | None = None,
    *,
    pixels: int = 12,
) -> IntArray:
    """Return the maze as an RGB array; `agent` and `goal` are (column, row)."""
    rows, columns, _ = passages.shape
    wall = max(1, pixels // 6)
    image = np.full((rows * pixels + wall, columns * pixels + wall, 3), 255, np.uint8)
    dark = np.array([45, 55, 72], np.uint8)
    image[:wall] = image[:, :wall] = dark
    for r in range(rows):
        for c in range(columns):
            top, left = r * pixels, c * pixels
            if not passages[r, c, 1]:
                image[top : top + pixels + wall, left + pixels : left + pixels + wall] = dark
            if not passages[r, c, 3]:
                image[top + pixels : top + pixels + wall, left : left + pixels + wall] = dark
    for place, colour in ((goal, (43, 108, 176)), (agent, (229, 62, 62))):
        if place is not None:
            margin = wall + max(1, pixels // 6)
            top, left = place[1] * pixels, place[0] * pixels
            image[top + margin : top + pixels - margin + wall, left + margin : left + pixels - margin + wall] = colour
    return image


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the hill, the pendulum and the first maze."""
    figure.set_size_inches(10, 3.6)
    car, pendulum, maze = figure.subplots(1, 3)
    _draw_hill(car)
    _draw_pendulum(pendulum)
    runs = results.get("maze", {})
    if runs:
        passages = np.array(next(iter(runs.values()))["passages"])
        goal = (passages.shape[1] - 1, passages.shape[0] - 1)
        maze.imshow(picture(passages, (0, 0), goal), interpolation="nearest")
    maze.set_axis_off()
    titles = ("mountain car: touch the flag", "pendulum: swing it upright", "maze: from red to blue")
    for axis, title in zip((car, pendulum, maze), titles, strict=True):
        axis.set_title(title, fontsize=10)
        # Square pictures at the top of their cells: all titles on one line.
        axis.set_anchor("N")


def _draw_hill(axis: Any) -> None:
    x = np.linspace(-1.2, 0.6, 300)
    axis.fill_between(x, np.sin(3 * x) * 0.45 + 0.55, color="#e2e8f0", lw=0)
    axis.plot(x, np.sin(3 * x) * 0.45 + 0.55, color="#2d3748", lw=2)
    axis.plot(-0.5, math.sin(-1.5) * 0.45 + 0.55 + 0.045, "o", ms=11, color="#e53e3e")
    top = math.sin(1.5) * 0.45 + 0.55
    axis.plot([0.5, 0.5], [top, top + 0.25], color="#2d3748", lw=1.5)
    axis.fill([0.5, 0.5, 0.37], [top + 0.25, top + 0.15, top + 0.2], color="#2b6cb0", lw=0)
    axis.set(xlim=(-1.2, 0.6), ylim=(0, 1.35))
    axis.set_axis_off()


def _draw_pendulum(axis: Any) -> None:
    for angle, colour, alpha in ((math.pi, "#e53e3e", 1.0), (0.0, "#2b6cb0", 0.3)):
        axis.plot([0, math.sin(angle)], [0, math.cos(angle)], color=colour, alpha=alpha, lw=9, solid_capstyle="round")
    turn = np.linspace(-math.pi * 0.8, -0.25, 60)
    axis.plot(1.15 * np.sin(turn), 1.15 * np.cos(turn), color="#718096", lw=1)
    axis.annotate(
        "",
        (1.15 * math.sin(-0.2), 1.15 * math.cos(-0.2)),
        (1.15 * math.sin(-0.3), 1.15 * math.cos(-0.3)),
        arrowprops={"arrowstyle": "->", "color": "#718096"},
    )
    axis.plot(0, 0, "o", ms=8, color="#2d3748")
    axis.set(xlim=(-1.5, 1.5), ylim=(-1.35, 1.35), aspect="equal")
    axis.set_axis_off()


EXPERIMENT = Experiment(
    name="fig7",
    title="Exploration: the three environments",
    reproduces="Figure 7: mountain car, pendulum and a 20 x 20 maze.",
    parameters={"maze_rows": 20},
    quick={},
    repeats=20,
    quick_repeats=2,
    seed=20_250_707,
    paper=PAPER,
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
