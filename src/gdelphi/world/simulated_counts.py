"""A world's count panel without its files, for studies and training on many worlds.

The rows of each day are drawn as `RowMaker` draws them for the archive, and counted at once, so the
panel is the one that writing the archive, ingesting it and reading the store would give. Dirt is in
it where the store shows it: missing days are absent, rows without a place count for their actors
and for the world, rows with a code that CAMEO does not know count for their root, and a story told
again or told late is a row of the day that published it.
"""

import numpy as np

from gdelphi.gdelt.cameo import quad_class
from gdelphi.measures.count_panel import MOST, QUAD_CLASSES, CountArray, CountPanel
from gdelphi.measures.profiles import Profiles, standard_events
from gdelphi.store.sums import UNITS
from gdelphi.world.config import MENTIONS, WorldConfig
from gdelphi.world.law import ROOTS, Floats, Ints, Law
from gdelphi.world.marginals import ROLES
from gdelphi.world.rows import RowMaker, Rows
from gdelphi.world.simulate import simulate


def simulated_count_panel(config: WorldConfig) -> CountPanel:
    """What the store would show of the archive that `create_world` writes of this world."""
    law = Law(config)
    counter, maker = _Counter(law), RowMaker(law, "v1")
    codes = _fine_places(maker)
    for day in simulate(law):
        if not day.missing:
            counter.add(day.index, maker.draw(day), codes)
    return counter.panel()


def _fine_places(maker: RowMaker) -> Ints:
    """Where the codes of a maker's rows stand among the finest; after the last if nowhere."""
    finest = standard_events("full")
    place = {code: number for number, code in enumerate(finest)}
    return np.array([place.get(code, len(finest)) for code in maker.codes], np.int64)


class _Counter:
    """Arrays of a panel, filled day by day. Streams and roots are positions, as in `Rows`."""

    def __init__(self, law: Law) -> None:
        self.law = law
        streams, days, roots = law.config.streams, law.config.days, len(ROOTS)
        self.present = np.zeros(days, np.bool_)
        self.counts = np.zeros((streams, days, roots), np.int64)
        self.units = np.zeros_like(self.counts)
        self.fine = np.zeros((streams, days, len(standard_events("full"))), np.uint16)
        self.pairs = np.zeros((days, streams, streams, QUAD_CLASSES), np.uint16)
        self.acted = np.zeros((streams, days, roots), np.uint16)
        self.world = np.zeros((days, roots), np.int64)
        self.quad = np.array([quad_class(root) - 1 for root in ROOTS])
        # Half of a row's weight in whole units, as the store adds them up; the lead has it twice.
        self.half_weight = np.rint(UNITS * np.log1p(list(MENTIONS)) / 2)

    def add(self, day: int, rows: Rows, fine_places: Ints) -> None:
        """Count the rows of a day; `fine_places` are the positions of the rows' codes."""
        streams, roots = self.law.config.streams, len(ROOTS)
        self.present[day] = True
        weight = self.half_weight[rows.mentions] * (1 + rows.lead)
        shape = (streams + 1, roots)  # the last: rows without a place
        cell = rows.stream * roots + rows.root
        self.counts[:, day] = _tally(cell, shape)[:-1]
        self.units[:, day] = _tally(cell, shape, weight)[:-1]
        self.world[day] = _tally(rows.root, (roots,))
        codes = self.fine.shape[2] + 1
        cell = rows.stream * codes + fine_places[rows.code]
        self.fine[:, day] = _small(_tally(cell, (streams + 1, codes)))[:-1, :-1]
        self._add_actors(day, rows)

    def _add_actors(self, day: int, rows: Rows) -> None:
        streams, roots = self.law.config.streams, len(ROOTS)
        one, other = (self._stream_of(actor) for actor in (rows.actor1, rows.actor2))
        second = np.where(one == other, streams, other)  # a row counts once for a country
        shape = (streams + 1, roots)
        acted = _tally(one * roots + rows.root, shape) + _tally(second * roots + rows.root, shape)
        self.acted[:, day] = _small(acted)[:-1]
        both = (one < streams) & (second < streams)
        cell = (one * streams + other) * QUAD_CLASSES + self.quad[rows.root]
        pairs = _tally(cell[both], (streams, streams, QUAD_CLASSES))
        self.pairs[day] = _small(pairs + pairs.swapaxes(0, 1))

    def _stream_of(self, actor: Ints) -> Ints:
        """The stream of an actor's country; after the last if it has none or is no stream."""
        land, streams = actor // len(ROLES), self.law.config.streams
        return np.asarray(np.where((land == 0) | (land > streams), streams, land - 1))

    def panel(self) -> CountPanel:
        law = self.law
        roots = Profiles(
            law.map.streams,
            tuple(law.day(index) for index in range(law.config.days)),
            ROOTS,
            self.counts,
            self.units / UNITS,
            self.counts.sum(axis=2),
            self.present,
        )
        return CountPanel(roots, self.fine, self.pairs, self.acted, self.world)


def _tally(cells: Ints, shape: tuple[int, ...], weights: Floats | None = None) -> Ints:
    """How often each cell occurs, or the sum of its whole weights."""
    sums = np.bincount(cells, weights, int(np.prod(shape)))
    return np.asarray(sums.reshape(shape), np.int64)


def _small(counts: Ints) -> CountArray:
    return np.minimum(counts, MOST).astype(np.uint16)
