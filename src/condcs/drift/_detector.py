"""A drift detector for relations: an alarm when y given x is no longer what it was in a reference.

`_update` is what happens to a row, `take_until_alarm` the same for many at once, as `update_many` and the command use
it, and `watch_rows` of `_watching` the compiled part of both; read these first. What rows are scored, ranked and bet on
by is made by `_take_reference`, anew for every reference. Where rows come from (files, pipes) is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple

import numpy as np

from condcs._core.arrays import AnyArray, Array, BoolArray, FloatArray, IntArray, evenly_spaced
from condcs._core.checks import check_choice, check_integer, check_positive, check_rng
from condcs._core.errors import CondcsWarning, DataError, ParameterError, ShapeError, public, warn_caller
from condcs._core.files import State, Stateful
from condcs._core.vocabulary import named
from condcs._tables.kinds import Column
from condcs.drift._alarm import Alarm, describe_alarm
from condcs.drift._betting import (
    CLOCK_EPOCH_ROWS,
    CLOCK_ROWS,
    CellGeometry,
    Sums,
    check_draws,
    count_scores,
    make_bets,
    no_sums,
)
from condcs.drift._cells import CellTree, Regions, cells_from_state, cells_state
from condcs.drift._scores import (
    FEWEST_REFERENCE_ROWS,
    InputsNeverReturn,
    ScoreModel,
    design,
    fit_scores,
    label_counts,
)
from condcs.drift._stream_columns import HAS_GAP, HAS_UNSEEN_LABEL, USABLE, StreamColumns, encode_reference
from condcs.drift._watching import COURSE_SCORE, COURSE_VALUE, KEPT_ROWS, KeptRows, Plan, watch_rows

AfterAlarm = Literal["learn", "keep"]
"""What happens after an alarm."""

PENDING_ROWS = 10_000
"""Most rows that wait for their response, so that memory is constant where some responses never come. With fewer,
responses that come late find their inputs dropped; the documentation of `update_input` names the number."""

WARNING_SHARE = 0.1
"""A warning is given at this share of the threshold; so it is at most ten times as frequent as an alarm where nothing
changed."""

_CHUNK = 1024
"""Rows that the compiled loop scores at once. With fewer, calls cost more; with more, more rows have been scored in
vain when there is an alarm among them. The alarms are the same for any number."""

_UNUSABLE = {HAS_GAP: "gaps", HAS_UNSEEN_LABEL: "unseen labels"}
"""What rows that cannot be used are counted as, by the codes of `StreamColumns.unusable`."""

_COUNTED = ("rows", "watched", "outside", "learned", "expired", *_UNUSABLE.values())

_STORED = {
    "kept_outcomes": "kept_ranked",
    "sums_epoch_totals": "sums_before",
    "start_epoch_totals": "start_before",
    "sums_regions": "sums_local",
    "start_regions": "start_local",
    "sums_values": "sums_won",
    "start_values": "start_won",
    "sums_inputs": "sums_met",
    "start_inputs": "start_met",
}
"""Names of arrays in saved states that are not those of the fields: states of earlier versions can be resumed."""

_STORED_CHANCES = "start_chances"
"""Name of `CellGeometry.chances` in saved states."""


class StreamCourse(NamedTuple):
    """What rows of a stream came to, one after the other: arrays (n,)."""

    scores: FloatArray  # the first score of each; NaN where it was not watched
    statistics: FloatArray  # the evidence after it, or what it had reached in the row of an alarm
    is_learning: BoolArray  # whether a new reference was being collected after it


class ConditionalDriftDetector(Stateful):
    r"""Watch a stream of pairs (x, y) and detect when the relation p(y|x) departs from that of a reference.

    Every row gets a score, its residual from a regression of y on x in units of its spread; the score is ranked among
    all scores seen so far in the same cell of x; and Shiryaev-Roberts sums of bets against uniform ranks are compared
    with a threshold (an e-detector). If rows are independent given their inputs and the distribution of a score depends
    on x by its cells only, an alarm within n rows has probability at most n / (2 `expected_run_length`), so that the
    mean run length is at least the stated one: for any size of the reference, and however the inputs move. Memory is
    constant. Rows whose inputs have fewer than three neighbours among the fitted rows of the reference are counted but
    not watched: p(y|x) is unknown there. Nor are rows with gaps or labels that the reference does not have, or those
    learned after an alarm.

    The reference is read in the order of time, in which neighbouring rows may be alike: `notes` says whether residuals
    are autocorrelated and what is done about it, `promises` whether the stated run length can be promised.

    Parameters
    ----------
    x_ref, y_ref : array or table, shape (n, d_x) and (n, d_y)
        The reference, at least 40 rows; 300 are a good beginning. Half of them, 2,500 at most, are fitted, the others
        ranked where they are near fitted ones. Columns are numbers, or labels: text, truth values, and a response of
        two values. Columns of a DataFrame keep their names, and rows may then be passed as dicts. Inputs must return:
        of a time or a running number no later row is near the reference, and such a reference is refused.
    expected_run_length : float
        Least mean number of rows until a false alarm in a stream that follows the reference.
    after_alarm : {"learn", "keep"}
        After an alarm, take the next `learning_rows` rows as the new reference, without an alarm meanwhile, so that a
        change is reported once; or keep the reference, and report again and again while the relation differs. Rows
        among which inputs do not return are no reference, and the next `learning_rows` are taken instead.
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

    # What a reference fixes: how rows are scored, where over x they are, and what is bet on, all together in a plan;
    # and the ranked rows of it that an alarm compares with.
    _model: ScoreModel
    _regions: Regions
    _cells: CellTree
    _plan: Plan
    _unnamed_plan: tuple[Any, ...]
    _start: Sums
    _value_per_evidence: float
    _reference: tuple[FloatArray, FloatArray]  # (r, d_x) and (r, d_y)
    # What rows change: counts and sums, the residuals (order, targets) of the last rows, and these rows themselves, in
    # rings.
    _sums: Sums
    _history: FloatArray
    _rings: KeptRows
    _n_watched: int  # rows put into the rings since the last reset, of which they hold the last ones
    # Rows of x and y that are collected for a new reference; None while rows are watched.
    _learning: list[list[list[float]]] | None
    # What the last row came to.
    _drift: bool
    _score: float

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
        self.learning_rows = check_integer("learning_rows", learning_rows, FEWEST_REFERENCE_ROWS)
        categories = [category] if isinstance(category, str) else list(category)
        self._x, x = encode_reference("x", "x_ref", x_ref, categories)
        self._y, y = encode_reference("y", "y_ref", y_ref, categories)
        unknown = [name for name in categories if name not in (*self._x.names, *self._y.names)]
        if unknown:
            have = ", ".join(map(repr, (*self._x.names, *self._y.names)))
            raise ParameterError(f"{named('category')} must name columns, got {unknown[0]!r}. The columns are {have}.")
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
        """The evidence for a change, which is compared with `threshold`.

        The largest value of a score and a family of regions, each a weighted sum of bets; not their sum. After an alarm
        it begins again at 0; `alarm.statistic` is what it had reached.
        """
        return float(self._sums.values.max()) / self._value_per_evidence

    @property
    def score(self) -> float:
        """The first score of the last row, a residual in units of its spread; NaN if it was not watched."""
        return self._score

    @property
    def threshold(self) -> float:
        """The evidence at which there is an alarm: the expected run length."""
        return self.expected_run_length

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of x, then of y: numbers, and labels with their codes."""
        return (*self._x.columns, *self._y.columns)

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

        All of them; watched; with inputs outside of what the reference knows; learned after an alarm; with gaps, words
        for numbers, or (of ``condcs watch``) cells that cannot be read; with labels that the reference does not have;
        and inputs whose responses never came.
        """
        return dict(self._counts)

    @public
    def update(self, x: Any, y: Any) -> ConditionalDriftDetector:
        """Add one row and return the detector; x may be a dict with the names of the reference's columns."""
        self._update(self._x.one(x), self._y.one(y))
        return self

    def _update(self, x: FloatArray, y: FloatArray) -> None:
        """Take in one row of numbers and codes, x (1, d_x) and y (1, d_y)."""
        # 1. Count it. Until it says something else, there is no alarm and no score.
        self._counts["rows"] += 1
        self._drift, self._score = False, float("nan")
        # 2. A row with a gap, or a label that the reference does not have, is counted and passed over.
        code = self._x.unusable_row(x[0].tolist()) or self._y.unusable_row(y[0].tolist())
        if code != USABLE:
            self._counts[_UNUSABLE[code]] += 1
        # 3. After an alarm rows are collected, until they are enough for a new reference.
        elif self._learning is not None:
            self._collect(x, y)
        # 4. Any other row is watched: its residual is ranked among those at similar x, and bets that ranks are not
        #    uniform win or lose. When the evidence, which is made of what they have won, reaches the threshold, there
        #    is an alarm that says what has changed, where and since when.
        else:
            _, _, self._drift = self._watch(x, y, np.array([self._counts["rows"]]))

    @public
    def update_many(self, x: Array, y: Array) -> BoolArray:
        """Add rows one after the other and return, for each, whether it raised an alarm."""
        inputs, responses = self._x.many(x), self._y.many(y)
        _check_same_length("x", inputs, "y", responses)
        alarms = np.zeros(len(inputs), bool)
        n_taken = 0
        while n_taken < len(inputs):
            chunk = slice(n_taken, n_taken + _CHUNK)
            n_taken += len(self.take_until_alarm(inputs[chunk], responses[chunk]).scores)
            alarms[n_taken - 1] = self._drift
        return alarms

    def take_until_alarm(self, x: FloatArray, y: FloatArray) -> StreamCourse:
        """Do the same as `_update` with each of some rows of numbers and codes, x (n, d_x) and y (n, d_y).

        `_update` is for rows that come one by one, for which arrays of all of this would take half of the time.
        Stop after a row that raised an alarm. The course has as many rows as were taken in.
        """
        codes = self._x.unusable(x)
        codes = np.where(codes != USABLE, codes, self._y.unusable(y))  # (n,)
        usable = np.flatnonzero(codes == USABLE)
        first_number = self._counts["rows"] + 1
        # What holds before the first row holds until a row changes it; those that cannot be used change nothing.
        scores = np.full(len(x), np.nan)
        statistics, is_learning = np.full(len(x), self.statistic), np.full(len(x), self.is_learning)
        self._drift, n_counted = False, 0
        while len(usable) and not self._drift:
            if self._learning is not None:
                # 1. Rows to learn from. The new reference depends on how many rows were seen before it.
                rows = usable[: self.learning_rows - len(self._learning)]
                n_counted = self._count(codes, n_counted, int(rows[-1]) + 1)
                self._collect(x[rows], y[rows])
            else:
                # 2. Rows that are watched, until an alarm.
                watched_scores, evidence, self._drift = self._watch(x[usable], y[usable], first_number + usable)
                rows = usable[: len(evidence)]
                n_counted = self._count(codes, n_counted, int(rows[-1]) + 1)
                scores[rows] = watched_scores
                statistics[rows[0] : rows[-1] + 1] = _carried_forward(evidence, rows - rows[0])
                statistics[rows[-1] + 1 :] = self.statistic
            is_learning[rows[-1] :] = self.is_learning
            usable = usable[len(rows) :]
        if not self._drift:
            n_counted = self._count(codes, n_counted, len(x))
        taken = slice(n_counted)
        self._score = float(scores[n_counted - 1]) if n_counted else float("nan")
        return StreamCourse(scores[taken], statistics[taken], is_learning[taken])

    def _count(self, codes: IntArray, start: int, stop: int) -> int:
        """Count rows from `start` to `stop`, and which of them cannot be used by their codes (n,); return `stop`."""
        self._counts["rows"] += stop - start
        for code, name in _UNUSABLE.items():
            self._counts[name] += int(np.sum(codes[start:stop] == code))
        return stop

    def _watch(self, x: FloatArray, y: FloatArray, numbers: IntArray) -> tuple[FloatArray, FloatArray, bool]:
        """Watch rows with their numbers (n,) until an alarm.

        Return the first score of each row that was taken in, the evidence after it, and whether there was an alarm.
        """
        n_usable_before = self._counts["learned"] + self._counts["watched"] + self._counts["outside"]
        n_taken, n_watched, alarm, course, self._history = watch_rows(
            x=x,
            y=y,
            numbers=numbers,
            usable_numbers=n_usable_before + 1 + np.arange(len(x)),
            unnamed=self._unnamed_plan,
            sums=self._sums,
            history=self._history,
            rings=self._rings,
            n_earlier=self._n_watched,
            alarm_value=self.threshold * self._value_per_evidence,
        )
        scores, values = course[:, COURSE_SCORE], course[:, COURSE_VALUE]  # (n_taken,) each
        self._n_watched += n_watched
        self._counts["watched"] += n_watched
        self._counts["outside"] += n_taken - n_watched
        if alarm:
            self._raise_alarm()
        # After an alarm, too, which forgets everything else of the stream.
        self._score = float(scores[-1])
        return scores, values / self._value_per_evidence, alarm

    def _raise_alarm(self) -> None:
        """Say what the evidence is for, and begin again: with rows to learn from, or the same reference."""
        n_kept = min(self._n_watched, KEPT_ROWS)
        # Slots of the rings, that of the oldest row first.
        oldest_first = (self._n_watched - n_kept + np.arange(n_kept)) % KEPT_ROWS
        self.alarm = describe_alarm(
            model=self._model,
            regions=self._regions,
            plan=self._plan,
            sums=self._sums,
            last_rows=KeptRows(*(ring[oldest_first] for ring in self._rings)),
            reference=self._reference,
            value_per_evidence=self._value_per_evidence,
            threshold=self.threshold,
        )
        history = self._history
        self.reset()
        self._history = history  # the next row follows this one in time, whatever has been reported
        if self.after_alarm == "learn":
            self._learning = []

    def _collect(self, x: FloatArray, y: FloatArray) -> None:
        """Take rows as a part of a new reference, and start from it when there are enough.

        If inputs do not return among them, nothing could be watched: the next rows are taken instead.
        """
        assert self._learning is not None
        self._learning += [[a, b] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        self._counts["learned"] += len(x)
        if len(self._learning) >= self.learning_rows:
            inputs = np.array([x_row for x_row, _ in self._learning])
            responses = np.array([y_row for _, y_row in self._learning])
            try:
                self._take_reference(inputs, responses)
            except InputsNeverReturn:
                # A stream goes on, and its inputs may return later.
                self._learning = []

    @public
    def update_input(self, key: str | int, x: Any) -> ConditionalDriftDetector:
        """Add the inputs of a row whose response comes later, by `update_label` with the same key.

        The last 10,000 wait; older ones are dropped and counted as expired.
        """
        if not isinstance(key, str | int):
            raise ParameterError(
                f"{named('key')} must be a string or an integer, got {type(key).__name__}. Pass e.g. str(key)."
            )
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
                f"{named('key')} must be that of a row whose inputs wait for a response, got {key!r}. Call "
                f"`update_input` first; the last {PENDING_ROWS:,} inputs are kept."
            )
        response = self._y.one(y)
        self._update(np.array([self._pending.pop(key)]), response)
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
        self._drift, self._n_watched, self._score = False, 0, float("nan")
        self._learning = None
        self._sums = deepcopy(self._start)
        self._history = np.zeros_like(self._model.arrays.autoregression)
        self._rings = KeptRows(
            np.zeros(KEPT_ROWS, np.int64),
            np.zeros((KEPT_ROWS, len(self._x.columns))),
            np.zeros((KEPT_ROWS, len(self._y.columns))),
            np.zeros((KEPT_ROWS, *self._sums.values.shape)),
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
            "kept": self._n_watched,
            "learning": self._learning,
            "key": int(self._key),
        }
        x_ref, y_ref = self._reference
        return {
            "settings": np.array(json.dumps(settings)),
            _STORED_CHANCES: self._plan.geometry.chances,
            # Copies, because the rows to come change the arrays themselves.
            **{name: array.copy() for name, array in self._changing().items()},
            "reference_x": x_ref,
            "reference_y": y_ref,
            **cells_state(self._cells, self._regions),
            **self._model.state(),
        }

    def _changing(self) -> dict[str, AnyArray]:
        """Return the arrays that rows change, and what they start from, by their names in a saved state."""
        arrays: dict[str, AnyArray] = {"history": self._history}
        for prefix, group in (("kept", self._rings), ("sums", self._sums), ("start", self._start)):
            arrays |= {f"{prefix}_{name}": array for name, array in group._asdict().items()}
        return {_STORED.get(name, name): array for name, array in arrays.items()}

    @classmethod
    @public
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> ConditionalDriftDetector:
        """Return the detector that `state` describes; it continues as if it had never stopped."""
        detector = cls.__new__(cls)
        try:
            detector._restore(state)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise DataError(
                f"{named('state')} must come from `state_dict()` of a detector, got something else ({error}). Save it "
                "again."
            ) from error
        return detector

    def _restore(self, state: Mapping[str, AnyArray]) -> None:
        settings = json.loads(str(np.asarray(state["settings"]).item()))
        self.expected_run_length = check_positive("expected_run_length", settings["expected_run_length"])
        self.after_alarm = check_choice("after_alarm", settings["after_alarm"], ("learn", "keep"))
        self.learning_rows = check_integer("learning_rows", settings["learning_rows"], FEWEST_REFERENCE_ROWS)
        self._x, self._y = (StreamColumns.from_description(settings[name]) for name in ("x", "y"))
        self._key = np.uint64(settings["key"])
        notes, promises = tuple(map(str, settings["notes"])), bool(settings["promises"])
        self._model = ScoreModel.from_state(state, self._x.columns, self._y.columns, notes, promises)
        self._cells, self._regions = cells_from_state(state, self._x.columns, len(self._model.arrays.units))
        chances = np.zeros((self._model.n_scores, self._cells.n_cells))
        chances[...] = _checked_like(chances, state, _STORED_CHANCES)
        self._plan_watch(chances)
        self._counts = {name: int(settings["counts"][name]) for name in _COUNTED}
        self._pending = {key: list(map(float, row)) for key, row in settings["pending"]}
        self.alarm = None if settings["alarm"] is None else Alarm.from_dict(settings["alarm"])
        self.reset()
        self._drift, self._n_watched = bool(settings["drift"]), int(settings["kept"])
        learning = settings["learning"]
        if learning is not None:
            self._learning = [[list(map(float, x_row)), list(map(float, y_row))] for x_row, y_row in learning]
        for name, array in self._changing().items():
            array[...] = _checked_like(array, state, name)
        x_ref, y_ref = (np.asarray(state[name], np.float64) for name in ("reference_x", "reference_y"))
        widths = x_ref.shape[1], y_ref.shape[1]
        if widths != (len(self._x.columns), len(self._y.columns)) or len(x_ref) != len(y_ref):
            raise ValueError("reference rows that do not fit")
        self._reference = x_ref, y_ref

    def _take_reference(self, x: FloatArray, y: FloatArray) -> None:
        """Fit scores on a reference, and start from it."""
        _check_same_length("x_ref", x, "y_ref", y)
        if len(x) < FEWEST_REFERENCE_ROWS:
            raise ShapeError(
                f"{named('x_ref')} must have at least {FEWEST_REFERENCE_ROWS} rows that can be used, got {len(x)}. "
                "Collect more."
            )
        # 1. Scores: regressions on one half of the rows; the others, which are ranked, are scored by these.
        # Other random numbers than those of the rows of the stream.
        key = np.uint64(np.random.default_rng([int(self._key), self.n_seen]).integers(2**63))
        # What is unfit raises here, before anything of the detector has changed.
        self._model, is_ranked, scores, chances = fit_scores(x, y, self._x.columns, self._y.columns, key)
        # 2. Regions of x, on which there are bets, and cells of each of them, in which scores are ranked.
        inputs = design(x[is_ranked], self._x.columns)  # (r, p)
        self._regions = Regions.of(x, self._x.columns)
        regions = self._regions.locate(x[is_ranked])  # (r, f)
        self._cells = CellTree.of(inputs, self._model.features(inputs), regions, self._regions.n_regions)
        cells = self._cells.locate(inputs, regions)  # (r, f)
        # 3. Bets, and the sums they start from: the scores of the ranked rows are counted, and nothing is won.
        self._plan_watch(_chances_in_cells(chances, cells, self._cells.n_cells))
        start = self._start
        count_scores(scores, cells, start.trees, start.totals)
        start.epoch_totals[0] = start.totals
        start.clock[CLOCK_ROWS] = start.clock[CLOCK_EPOCH_ROWS] = len(scores)
        # 4. Some ranked rows are kept, evenly spaced, to compare those of an alarm with.
        ranked = np.flatnonzero(is_ranked)
        rows_of_comparison = ranked[evenly_spaced(len(ranked), KEPT_ROWS)]
        self._reference = x[rows_of_comparison], y[rows_of_comparison]
        self.reset()

    def _plan_watch(self, chances: FloatArray) -> None:
        """Put together what is fixed until the next reference, and what a stream starts from.

        `chances` (s, cells) are the mean probabilities of labels in the cells.
        """
        model, regions, cells = self._model, self._regions, self._cells
        n_scores, (n_cells, n_inputs) = model.n_scores, cells.deviations.shape
        check_draws(model.n_label_draws, n_scores * len(regions.families))
        geometry = CellGeometry(
            deviations=cells.deviations, limits=cells.limits, is_label=model.are_labels, chances=chances
        )
        bets = make_bets(regions)
        # With A the expected run length and s scores: after n rows the value of a family is expected to be at most
        # n times the family's share of the bets, so it has reached 2 A s with a probability of at most
        # share * n / (2 A s) (Doob). Over all families and scores that is n / (2 A): the mean run length is at least A.
        self._value_per_evidence = 2.0 * n_scores
        self._start = no_sums(n_scores, n_cells, n_inputs, bets)
        self._plan = Plan(
            n_labels=label_counts(self._x.columns),
            scores=model.arrays,
            regions=regions.arrays,
            cells=cells,
            geometry=geometry,
            bets=bets,
            key=self._key,
        )
        self._unnamed_plan = self._plan.unnamed()


def _chances_in_cells(chances: FloatArray, cells: IntArray, n_cells: int) -> FloatArray:
    """Return the mean probability (s, cells) of each label in each cell, given those of rows (r, s) in cells (r, f).

    A cell without ranked rows, e.g. of a label of x that only fitted rows have, gets the mean over all.
    """
    sums = np.zeros((n_cells, chances.shape[1]))
    for cells_of_family in cells.T:
        np.add.at(sums, cells_of_family, chances)
    counts = np.bincount(cells.ravel(), minlength=n_cells)[:, None]  # (cells, 1)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), chances.mean(axis=0))
    # In C order, for which the loops are compiled.
    return np.ascontiguousarray(means.T)


def _carried_forward(values: FloatArray, rows: IntArray) -> FloatArray:
    """Return the values of all rows up to the last of some, whose values are given: each holds until the next of them.

    The numbers of these rows (m,) increase, and the first of them is 0.
    """
    return values[np.searchsorted(rows, np.arange(rows[-1] + 1), side="right") - 1]


def _checked_like(array: AnyArray, state: Mapping[str, AnyArray], name: str) -> AnyArray:
    """Return an array of a saved state; a ValueError unless it is as long as another one, and of the same type."""
    saved = np.asarray(state[name])
    if np.isnan(saved).any():
        raise ValueError(f"{name} with NaN")
    if saved.shape != array.shape or saved.dtype != array.dtype:
        raise ValueError(f"{name} of type {saved.dtype} and shape {saved.shape} where {array.shape} is due")
    return saved


def _check_same_length(first: str, x: FloatArray, second: str, y: FloatArray) -> None:
    if len(x) != len(y):
        raise ShapeError(
            f"{named(first)} and {named(second)} must have the same number of rows, got {len(x)} and {len(y)}. "
            "Row i of one belongs to row i of the other."
        )
