"""A drift detector for relations: an alarm when y given x is no longer what it was in a reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import AnyArray, Array, BoolArray, FloatArray, IntArray
from condcs._core.checks import check_choice, check_integer, check_positive, check_rng
from condcs._core.compiling import inner, njit
from condcs._core.errors import CondcsWarning, DataError, ParameterError, ShapeError, public, warn_caller
from condcs._core.files import State, Stateful
from condcs.drift._alarm import Alarm, KeptRows, describe_alarm
from condcs.drift._betting import bet, count_scores, make_bets, no_sums
from condcs.drift._cells import Cells, Regions, locate_cells, locate_regions, parts_from_state, parts_state
from condcs.drift._scores import (
    FEWEST_ROWS,
    ScoreModel,
    design,
    design_rows,
    fit_scores,
    known_rows,
    label_counts,
    score_rows,
)
from condcs.drift._stream_columns import StreamColumns, read_reference

AfterAlarm = Literal["learn", "keep"]
"""What happens after an alarm."""

KEPT_ROWS = 1000
"""Rows of the stream that are kept, and of the reference, for what an alarm says."""

PENDING_ROWS = 10_000
"""Most rows that wait for their response."""

WARNING_SHARE = 0.1
"""A warning is given at this share of the threshold."""

_CHUNK = 1024
_UNUSABLE = ("gaps", "unseen labels")
_COUNTED = ("rows", "watched", "outside", "learned", "expired", *_UNUSABLE)


class ConditionalDriftDetector(Stateful):
    r"""Watch a stream of pairs (x, y) and detect when the relation p(y|x) departs from that of a reference.

    Every row gets a score, its residual from a regression of y on x in units of its spread; the score is ranked among
    all scores seen so far in the same cell of x; and Shiryaev-Roberts sums of bets against uniform ranks are compared
    with a threshold (an e-detector). If rows are independent given their inputs and the distribution of a score depends
    on x by its cells only, an alarm within n rows has probability at most n / (2 `expected_run_length`), so that the
    mean run length is at least the stated one: for any size of the reference, and however the inputs move. Memory is
    constant. Rows whose inputs have no neighbours in the reference are counted but not watched: p(y|x) is unknown
    there.

    The reference is read in the order of time, in which neighbouring rows may be alike: `notes` says whether residuals
    are autocorrelated and what is done about it, `promises` whether the stated run length can be promised.

    Parameters
    ----------
    x_ref, y_ref : array or table, shape (n, d_x) and (n, d_y)
        The reference, at least 40 rows; 300 are a good beginning. Half of them, 2,500 at most, are fitted, the others
        ranked. Columns are numbers, or labels: text, truth values, and a response of two values. Columns of a
        DataFrame keep their names, and rows may then be passed as dicts.
    expected_run_length : float
        Least mean number of rows until a false alarm in a stream that follows the reference.
    after_alarm : {"learn", "keep"}
        After an alarm, take the next `learning_rows` rows as the new reference, without an alarm meanwhile, so that a
        change is reported once; or keep the reference, and report again and again while the relation differs.
    learning_rows : int
        Length of a reference that is learned.
    category : sequence of str
        Names of further columns of labels that look like numbers. Columns of arrays are called x, or x0, x1 and so on.
    rng : int, Generator or None
        Seed of the random ranks of ties.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=400)
    >>> y = x + 0.5 * rng.normal(size=400)
    >>> detector = ConditionalDriftDetector(x, y, expected_run_length=2000, rng=0)
    >>> x_new = rng.normal(size=200)
    >>> alarms = detector.update_many(x_new, -x_new)
    >>> int(alarms.sum()), detector.alarm.since <= 5
    (1, True)
    """

    @public
    def __init__(
        self,
        x_ref: Array,
        y_ref: Array,
        *,
        expected_run_length: float = 10_000,
        after_alarm: AfterAlarm = "learn",
        learning_rows: int = 500,
        category: Sequence[str] = (),
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        self.expected_run_length = check_positive("expected_run_length", expected_run_length, 10_000)
        self.after_alarm = check_choice("after_alarm", after_alarm, ("learn", "keep"))
        self.learning_rows = check_integer("learning_rows", learning_rows, FEWEST_ROWS)
        named = [category] if isinstance(category, str) else list(category)
        self._x, x = read_reference("x", "x_ref", x_ref, named)
        self._y, y = read_reference("y", "y_ref", y_ref, named)
        unknown = [name for name in named if name not in (*self._x.names, *self._y.names)]
        if unknown:
            have = ", ".join(map(repr, (*self._x.names, *self._y.names)))
            raise ParameterError(f"`category` must name columns, got {unknown[0]!r}. The columns are {have}.")
        self._key = np.uint64(check_rng(rng).integers(2**63))
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._pending: dict[Any, list[float]] = {}
        self.alarm: Alarm | None = None
        self._take_reference(x, y)
        if not self.promises:
            warn_caller(" ".join(self.notes), CondcsWarning)

    @property
    def drift_detected(self) -> bool:
        """Whether the last row raised an alarm; `alarm` says what it is about."""
        return self._drift

    @property
    def warning_detected(self) -> bool:
        """Whether the evidence has reached a tenth of the threshold."""
        return not self._drift and self.statistic >= WARNING_SHARE * self.threshold

    @property
    def statistic(self) -> float:
        """The evidence for a change, which is compared with `threshold`."""
        return float(self._sums.won.max()) / self._scale

    @property
    def score(self) -> float:
        """The first score of the last row, a residual in units of its spread; NaN if it was not watched."""
        return self._score

    @property
    def threshold(self) -> float:
        """The evidence at which there is an alarm: the expected run length."""
        return self.expected_run_length

    @property
    def is_learning(self) -> bool:
        """Whether rows are being collected as a new reference."""
        return self._learning is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found about the dependence of the reference's rows, in sentences."""
        return self._model.notes

    @property
    def promises(self) -> bool:
        """Whether the stated run length can be promised; `notes` says why not."""
        return self._model.promises

    @property
    def n_seen(self) -> int:
        """Number of rows seen so far."""
        return self._counts["rows"]

    @property
    def counts(self) -> dict[str, int]:
        """What became of the rows.

        All of them; watched; with inputs outside of what the reference knows; learned after an alarm; with gaps, or
        words for numbers; with labels that the reference does not have; and inputs whose responses never came.
        """
        return dict(self._counts)

    @public
    def update(self, x: Any, y: Any) -> ConditionalDriftDetector:
        """Add one row and return the detector; x may be a dict with the names of the reference's columns."""
        self._take_one(self._x.one(x), self._y.one(y))
        return self

    @public
    def update_many(self, x: Array, y: Array) -> BoolArray:
        """Add rows one after the other and return, for each, whether it raised an alarm."""
        inputs, responses = self._x.many(x), self._y.many(y)
        _check_same_length("x", inputs, "y", responses)
        return self._take(inputs, responses)

    @public
    def update_input(self, key: str | int, x: Any) -> ConditionalDriftDetector:
        """Add the inputs of a row whose response comes later, by `update_label` with the same key.

        The last 10,000 wait; older ones are dropped and counted as expired.
        """
        if not isinstance(key, str | int):
            raise ParameterError(f"`key` must be a string or an integer, got {type(key).__name__}. Pass e.g. str(key).")
        self._pending.pop(key, None)
        self._pending[key] = self._x.one(x)[0].tolist()
        if len(self._pending) > PENDING_ROWS:
            self._pending.pop(next(iter(self._pending)))
            self._counts["expired"] += 1
        return self

    @public
    def update_label(self, key: str | int, y: Any) -> ConditionalDriftDetector:
        """Add the response of a row whose inputs were given before.

        Rows are watched in the order in which they are complete. The guarantee holds if how long a response takes does
        not depend on the response itself.
        """
        if key not in self._pending:
            raise DataError(
                f"`key` must be that of a row whose inputs wait for a response, got {key!r}. Call `update_input` "
                f"first; the last {PENDING_ROWS:,} inputs are kept."
            )
        response = self._y.one(y)
        self._take_one(np.array([self._pending.pop(key)]), response)
        return self

    @public
    def learn(self, x_ref: Array, y_ref: Array) -> None:
        """Take a new reference with the same columns, such as a longer one; counts go on."""
        x, y = self._x.many(x_ref), self._y.many(y_ref)
        _check_same_length("x_ref", x, "y_ref", y)
        usable = (self._x.unusable(x) == 0) & (self._y.unusable(y) == 0)
        self._take_reference(x[usable], y[usable])

    def reset(self) -> None:
        """Forget the stream; the reference is kept."""
        self._drift, self._kept_count, self._score = False, 0, float("nan")
        self._learning: list[list[list[float]]] | None = None
        self._sums = deepcopy(self._start)
        self._history = np.zeros_like(self._model.arrays.autoregression)
        self._rings = KeptRows(
            np.zeros(KEPT_ROWS, np.int64),
            np.zeros((KEPT_ROWS, len(self._x.columns))),
            np.zeros((KEPT_ROWS, len(self._y.columns))),
            np.zeros((KEPT_ROWS, *self._sums.won.shape)),
        )

    def state_dict(self) -> State:
        """Return the whole state as plain arrays."""
        settings = {
            "expected_run_length": self.expected_run_length,
            "after_alarm": self.after_alarm,
            "learning_rows": self.learning_rows,
            "x": self._x.describe(),
            "y": self._y.describe(),
            "notes": self.notes,
            "promises": self.promises,
            "counts": self._counts,
            "pending": list(self._pending.items()),
            "alarm": None if self.alarm is None else self.alarm.as_dict(),
            "drift": self._drift,
            "kept": self._kept_count,
            "learning": self._learning,
            "key": int(self._key),
        }
        reference = dict(zip(("reference_x", "reference_y"), self._reference, strict=True))
        parts = {**parts_state(self._cells, self._regions), **self._model.state()}
        # Copies, because the rows to come change the arrays themselves.
        changing = {name: array.copy() for name, array in self._changing().items()}
        return {"settings": np.array(json.dumps(settings)), **changing, **reference, **parts}

    def _changing(self) -> dict[str, AnyArray]:
        """Return the arrays that rows change, and what they start from."""
        arrays = {"history": self._history, "start_chances": self._chances}
        for group, part in (("kept", self._rings), ("sums", self._sums), ("start", self._start)):
            arrays |= {f"{group}_{name}": array for name, array in part._asdict().items()}
        return arrays

    @classmethod
    @public
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> ConditionalDriftDetector:
        """Return the detector that `state` describes; it continues as if it had never stopped."""
        made = cls.__new__(cls)
        try:
            made._restore(state)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise DataError(
                f"`state` must come from `state_dict()` of a detector, got something else ({error}). Save it again."
            ) from error
        return made

    def _restore(self, state: Mapping[str, AnyArray]) -> None:
        settings = json.loads(str(np.asarray(state["settings"]).item()))
        self.expected_run_length = check_positive("expected_run_length", settings["expected_run_length"])
        self.after_alarm = check_choice("after_alarm", settings["after_alarm"], ("learn", "keep"))
        self.learning_rows = check_integer("learning_rows", settings["learning_rows"], FEWEST_ROWS)
        self._x, self._y = (StreamColumns.from_description(settings[name]) for name in ("x", "y"))
        self._key = np.uint64(settings["key"])
        notes, promises = tuple(map(str, settings["notes"])), bool(settings["promises"])
        self._model = ScoreModel.from_state(state, self._x.columns, self._y.columns, notes, promises)
        self._cells, self._regions = parts_from_state(state, self._x.columns, len(self._model.arrays.units))
        self._set_bets()
        self._counts = {name: int(settings["counts"][name]) for name in _COUNTED}
        self._pending = {key: list(map(float, row)) for key, row in settings["pending"]}
        self.alarm = None if settings["alarm"] is None else Alarm.from_dict(settings["alarm"])
        self.reset()
        self._drift, self._kept_count = bool(settings["drift"]), int(settings["kept"])
        learning = settings["learning"]
        self._learning = None if learning is None else [[list(map(float, part)) for part in row] for row in learning]
        for name, own in self._changing().items():
            array = np.asarray(state[name])
            if array.shape != own.shape or array.dtype != own.dtype or np.isnan(array).any():
                raise ValueError(f"{name} of type {array.dtype} and shape {array.shape} where {own.shape} is due")
            own[...] = array
        self._reference = (np.asarray(state["reference_x"], np.float64), np.asarray(state["reference_y"], np.float64))
        widths = tuple(part.shape[1] for part in self._reference)
        if widths != (len(self._x.columns), len(self._y.columns)) or len({len(p) for p in self._reference}) != 1:
            raise ValueError("reference rows that do not fit")

    def _take_reference(self, x: FloatArray, y: FloatArray) -> None:
        """Fit scores on a reference, and start from it."""
        _check_same_length("x_ref", x, "y_ref", y)
        if len(x) < FEWEST_ROWS:
            raise ShapeError(
                f"`x_ref` must have at least {FEWEST_ROWS} rows that can be used, got {len(x)}. Collect more."
            )
        # Other random numbers than those of the rows of the stream.
        key = np.uint64(np.random.default_rng([int(self._key), self.n_seen]).integers(2**63))
        self._model, ranked, scores, chances = fit_scores(x, y, self._x.columns, self._y.columns, key)
        inputs = design(x[ranked], self._x.columns)
        self._regions = Regions.of(x, self._x.columns)
        regions = self._regions.locate(x[ranked])
        self._cells = Cells.of(inputs, self._model.features(inputs), regions, int(self._regions.first[-1]))
        self._set_bets()
        cells = self._cells.locate(inputs, regions)
        start, means = self._start, self._chances
        count_scores(scores, cells, start.trees, start.totals)
        start.before[0], start.clock[:2] = start.totals, len(scores)
        for own in cells.T:
            np.add.at(means.T, own, chances)
        # A cell without ranked rows, e.g. of a label of x that only fitted rows have, gets the mean over all.
        means[:] = np.where(start.totals > 0, means / np.maximum(start.totals, 1), chances.mean(axis=0)[:, None])
        sample = np.flatnonzero(ranked)
        sample = sample[np.linspace(0, len(sample) - 1, min(KEPT_ROWS, len(sample))).astype(int)]
        self._reference = x[sample], y[sample]
        self.reset()

    def _set_bets(self) -> None:
        regions = self._regions
        places = regions.first, self._cells.deviations, self._cells.limits
        self._bets = make_bets(regions.first, regions.heights, regions.shares, len(self._x.columns))
        # The bound of the probability of an alarm is the sum over scores.
        self._scale = 2.0 * self._model.n_scores
        self._start = no_sums(self._model.n_scores, self._cells.deviations, self._bets)
        self._chances = np.zeros((self._model.n_scores, self._cells.total))
        sizes, arrays = label_counts(self._x.columns), self._model.arrays
        self._fixed = sizes, arrays, regions.arrays, self._cells, places, self._bets, self._chances, self._key

    def _take_one(self, x: FloatArray, y: FloatArray) -> None:
        """Take in one encoded row: what `_take` does, without the cost of its arrays."""
        self._counts["rows"] += 1
        self._drift, self._score = False, float("nan")
        why = self._x.unusable_row(x[0].tolist()) or self._y.unusable_row(y[0].tolist())
        if why:
            self._counts[_UNUSABLE[why - 1]] += 1
        elif self._learning is not None:
            self._collect(x, y)
        else:
            self._drift = self._watch(x, y, np.array([self._counts["rows"]]))[1]

    def _take(self, x: FloatArray, y: FloatArray) -> BoolArray:
        """Take in encoded rows and return which raised an alarm."""
        alarms = np.zeros(len(x), bool)
        why = self._x.unusable(x)
        why = np.where(why > 0, why, self._y.unusable(y))
        numbers = np.arange(self._counts["rows"] + 1, self._counts["rows"] + 1 + len(x))
        self._counts["rows"] += len(x)
        usable = np.flatnonzero(why == 0)
        for code, name in enumerate(_UNUSABLE, start=1):
            self._counts[name] += int(np.sum(why == code))
        self._drift, self._score = False, float("nan")
        start = 0
        while start < len(usable):
            part = usable[start : start + _CHUNK]
            if self._learning is not None:
                part = part[: self.learning_rows - len(self._learning)]
                self._collect(x[part], y[part])
                taken, alarm = len(part), False
            else:
                taken, alarm = self._watch(x[part], y[part], numbers[part])
            start += taken
            alarms[part[taken - 1]] = alarm
        self._drift = bool(len(alarms) and alarms[-1])
        return alarms

    def _watch(self, x: FloatArray, y: FloatArray, numbers: IntArray) -> tuple[int, bool]:
        """Bet on rows until an alarm; return how many were taken in, and whether there was one."""
        threshold = self.expected_run_length * self._scale
        rows, watched, alarm, self._score, self._history = _watch_rows(
            x, y, numbers, self._fixed, self._sums, self._history, self._rings, self._kept_count, threshold
        )
        self._kept_count += watched
        self._counts["watched"] += watched
        self._counts["outside"] += rows - watched
        if alarm:
            self._raise_alarm()
        return rows, alarm

    def _raise_alarm(self) -> None:
        count = min(self._kept_count, KEPT_ROWS)
        order = (self._kept_count - count + np.arange(count)) % KEPT_ROWS
        kept = KeptRows(*(ring[order] for ring in self._rings))
        parts = self._model, self._regions, self._cells, self._bets, self._chances
        self.alarm = describe_alarm(*parts, self._sums, kept, self._reference, self._scale, self.threshold)
        history = self._history
        self.reset()
        self._history = history
        if self.after_alarm == "learn":
            self._learning = []

    def _collect(self, x: FloatArray, y: FloatArray) -> None:
        """Take rows as a part of a new reference, and start from it when there are enough."""
        assert self._learning is not None
        self._learning += [[a, b] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        self._counts["learned"] += len(x)
        if len(self._learning) >= self.learning_rows:
            inputs, responses = (np.array([row[side] for row in self._learning]) for side in (0, 1))
            self._take_reference(inputs, responses)


@njit(nogil=True)
def _watch_rows(
    x: Any, y: Any, numbers: Any, fixed: Any, sums: Any, history: Any, kept: Any, count: int, threshold: float
) -> Any:
    """Score, rank and bet on rows until an alarm, and keep them in rings that have had so many.

    Return how many were taken in and how many of them watched, whether there was an alarm, the first score of the last
    one, and the history of the next. A single call, because each costs as much as the work on several rows.
    """
    sizes, arrays, regions_of, tree, places, bets, chances, key = fixed
    inputs = design_rows(x, sizes)
    scores, before = score_rows(inputs, y, history, key, numbers, arrays)
    known = known_rows(inputs, arrays.units, arrays.fitted, arrays.farthest)
    regions = locate_regions(x, regions_of)
    cells = locate_cells(inputs, regions, tree)
    n_scores, families = sums.won.shape
    ranked = np.empty((len(x), n_scores, families))
    rows = bet(scores, chances, known, inputs, cells, regions, places, key, numbers, bets, sums, ranked, threshold)
    watched = 0
    for t in range(rows):
        if known[t]:
            place = (count + watched) % KEPT_ROWS
            kept.numbers[place] = numbers[t]
            _copy(x[t], kept.x[place])
            _copy(y[t], kept.y[place])
            for s in range(n_scores):
                _copy(ranked[t, s], kept.ranked[place, s])
            watched += 1
    alarm = False
    for s in range(n_scores):
        for f in range(families):
            alarm |= sums.won[s, f] >= threshold
    score = scores[rows - 1, 0] if known[rows - 1] else np.nan
    return rows, watched, alarm, score, before[rows : rows + len(history)].copy()


@inner()
def _copy(values: Any, into: Any) -> None:
    # Compiling the assignment of a row of an array takes seconds, most of them for the words of an error.
    for i in range(len(values)):
        into[i] = values[i]


def _check_same_length(first: str, x: FloatArray, second: str, y: FloatArray) -> None:
    if len(x) != len(y):
        raise ShapeError(
            f"`{first}` and `{second}` must have the same number of rows, got {len(x)} and {len(y)}. "
            "Row i of one belongs to row i of the other."
        )
