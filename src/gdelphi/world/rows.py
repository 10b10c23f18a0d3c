"""The rows of a simulated day, as GDELT writes them.

`Day` says how many rows of what; here each becomes a line: actors, place, tone, source. Lines are
joined from ready blocks (an actor's ten fields, a place's seven) that numpy chooses for the whole
day at once, so that most of the time goes into zipping.

Chosen so that the law can be read back exactly from what was written: codes, mentions and lead
flags are independent draws; the two countries of a pair of rivals stand in a conflict row if and
only if the simulation said so, hence rivals never meet in other rows; and no story repeats another
by chance (a row that would moves to another town), so that retold stories are those of the `Dirt`.
Both forms of an archive hold the same rows with the same ids.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gdelphi.gdelt.cameo import event_codes
from gdelphi.world import marginals
from gdelphi.world.config import (
    LEAD_SHARE,
    MENTIONS,
    ROOT_SHARES,
    Dirt,
)
from gdelphi.world.law import (
    INDEX,
    ROOTS,
    Ints,
    Law,
)
from gdelphi.world.marginals import (
    FIRST_TOWN,
    PLACES,
    ROLES,
    TOWNS,
    Odds,
    matrix,
)
from gdelphi.world.marginals import code_shares as code_shares
from gdelphi.world.places import Place, all_places
from gdelphi.world.simulate import SimulatedDay

ArchiveForm = Literal["v1", "v2"]
Texts = NDArray[Any]  # of str

QUARTERS = 96
ATTEMPTS = 50  # at telling a story that was not told; only enormous days need more than a few
DATES = 1000  # more than the days between the earliest and the latest event date of a file
LATEST = 60  # days that old news are late, at most

WITH_COUNTRY = np.array([marginals.WITH_COUNTRY[role] for role in ROLES])
_SITES = [
    f"https://www.{first}{second}.example/"
    for first in ("daily", "morning", "evening", "national", "global", "city", "united", "free")
    for second in ("post", "herald", "courier", "tribune", "times", "gazette", "monitor", "echo")
]
_SYLLABLES = [a + b for a in "bdfgklmnrstvz" for b in ("a", "e", "i", "o", "u", "an", "or", "in")]


@dataclass
class Stories:
    """What a day's rows tell, in the order of publication; arrays of one length."""

    home: Ints  # the country (stream) whose people act
    stream: Ints  # the country of the place; the number of streams stands for none
    root: Ints
    code: Ints
    rival: Ints  # 0, or 1 + number among the home's rivals
    actor1: Ints  # land * number of roles + role; 0 for a blank actor
    actor2: Ints
    place: Ints  # among the country's places
    shift: Ints  # event date, in days after the news day

    def __len__(self) -> int:
        return len(self.home)


@dataclass
class Rows(Stories):
    """A day's rows: what they tell, and how it was told."""

    quarter: Ints  # quarter hour of publication, 0 to 95
    names: Ints  # [2, rows] which of an actor's names is used
    lead: NDArray[np.bool_]  # told in the article's lead
    mentions: Ints  # position in `MENTIONS`


class RowMaker:
    """Writes the rows of one world's days."""

    def __init__(self, law: Law, form: ArchiveForm) -> None:
        self.law, self.config, self.form = law, law.config, form
        self.dirt = law.config.dirt or Dirt(**dict.fromkeys(Dirt.model_fields, 0.0))
        self.lands = marginals.lands(law)
        self._prepare_odds()
        self._prepare_texts()

    # --- what rows are drawn from -----------------------------------------------------------------

    def _prepare_odds(self) -> None:
        law, shares = self.law, code_shares(self.config)
        announcing = [occasion.code for occasion in self.config.occasions]
        self.codes = sorted({code for codes in shares.values() for code in codes} | {*announcing})
        self.announcing = np.array([self.codes.index(code) for code in announcing], np.int64)
        self.code_odds = Odds(matrix(shares, self.codes))
        self.role_odds = [
            Odds(np.concatenate([table, table * WITH_COUNTRY]))  # then: with a country for sure
            for table in (
                matrix(marginals.ROLES_OF_FIRST, ROLES),
                matrix(marginals.ROLES_OF_SECOND, ROLES),
            )
        ]
        rivals = [law.map.rivals_of(stream) for stream in range(self.config.streams)]
        self.rivals = np.zeros((len(rivals), max(map(len, rivals))), np.int64)
        for stream, others in enumerate(rivals):
            self.rivals[stream, : len(others)] = [other for _, other in others]
        self.partner_odds = Odds(marginals.partners(law, self.lands))
        self.place_odds = Odds(
            np.stack([marginals.place_weights(place) for place in law.map.places])
        )
        self.home_odds = Odds(law.usual.sum(axis=1)[None])
        self.root_odds = Odds(np.array([[ROOT_SHARES[root] for root in ROOTS]]))
        self.mention_odds = Odds(np.array([list(MENTIONS.values())]))
        self.quarter_odds = Odds(np.repeat(marginals.HOURS, QUARTERS // 24)[None].astype(float))

    def _prepare_texts(self) -> None:
        second = self.form == "v2"
        self.no_place = "0" + "\t" * (7 if second else 6)
        places = [_place_texts(place, second=second) for place in self.law.map.places]
        self.place_texts = _texts([*places, [self.no_place] * PLACES])
        known = {place.country.cameo: place for place in all_places()}
        self.land_texts = _texts(
            [self.no_place, *(_country_text(known[c.cameo], second=second) for c in self.lands)]
        )
        self.actor_texts = _texts(
            [marginals.actor_texts(None), *(marginals.actor_texts(c) for c in self.lands)]
        )
        self.actor_texts = self.actor_texts.reshape(-1, self.actor_texts.shape[-1])
        self.event_texts = _texts([marginals.event_text(code) for code in self.codes])
        self.count_texts = _texts([[f"{m}\t{min(m, n)}\t{m}" for n in (1, 2)] for m in MENTIONS])
        self.slugs = _texts([_slug(place.country.name) for place in self.law.map.places])
        known_codes = event_codes()
        self.code_slugs = _texts(
            [_slug(known_codes[c if c in known_codes else c[:2]].verb) for c in self.codes]
        )

    # --- drawing ----------------------------------------------------------------------------------

    def draw(self, day: SimulatedDay) -> Rows:
        """A day's rows as arrays: what `lines` writes of the same day, without its texts."""
        return self._draw(self._chance(day), day)

    def lines(self, day: SimulatedDay, first_id: int) -> tuple[list[str], Ints]:
        """A day's lines in the order of publication, and each one's quarter hour (0 to 95)."""
        rng = self._chance(day)
        rows = self._draw(rng, day)
        return self._write(rng, rows, day.day, first_id), rows.quarter

    def _chance(self, day: SimulatedDay) -> Generator:
        return np.random.default_rng([self.config.seed, 4, day.index])

    def _draw(self, rng: Generator, day: SimulatedDay) -> Rows:
        stories = self._stories(rng, day)
        number = len(stories)
        return Rows(
            **vars(stories),
            quarter=np.sort(self.quarter_odds.draw_many(rng, number)),
            names=rng.integers(0, self.actor_texts.shape[1], (2, number)),
            lead=rng.random(number) < LEAD_SHARE,
            mentions=self.mention_odds.draw_many(rng, number),
        )

    def _stories(self, rng: Generator, day: SimulatedDay) -> Stories:
        home, stream, root, code, rival = self._occurrences(rng, day)
        actor1, actor2 = self._actors(rng, home, root, rival)
        self._blank(rng, rival, actor1, actor2)
        place = self.place_odds.draw(rng, home)
        shift = self._shifts(rng, day.day, len(home))
        rows = Stories(home, stream, root, code, rival, actor1, actor2, place, shift)
        if len(rows):
            self._tell_once(rng, rows)
            self._tell_again(rng, rows)
        return rows

    def _occurrences(
        self, rng: Generator, day: SimulatedDay
    ) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Home, stream, root, code and rival of each row, shuffled."""
        plain = day.usual - day.with_rival.sum(axis=2)
        split = np.concatenate([plain[:, :, None], day.with_rival], axis=2)
        home, root, rival = _unfold(split)
        announced, kind = _unfold(day.announcements)
        nowhere = round(self.dirt.no_place * day.rows)
        roots = np.concatenate([root, self.root_odds.draw_many(rng, nowhere)])
        codes = self.code_odds.draw(rng, roots)
        announcing = self.announcing[kind]
        announced_roots = np.array([INDEX[self.codes[code][:2]] for code in announcing], np.int64)
        homes = np.concatenate([home, self.home_odds.draw_many(rng, nowhere), announced])
        streams = np.concatenate([home, np.full(nowhere, self.config.streams), announced])
        rivals = np.concatenate([rival, np.zeros(nowhere + len(announced), np.int64)])
        order = rng.permutation(len(homes))
        return (
            homes[order],
            streams[order],
            np.concatenate([roots, announced_roots])[order],
            np.concatenate([codes, announcing])[order],
            rivals[order],
        )

    def _actors(self, rng: Generator, home: Ints, root: Ints, rival: Ints) -> tuple[Ints, Ints]:
        """Roles by root; countries: those of the rivals, or of the place and of no rival."""
        number, opposed = len(home), rival > 0
        role1, role2 = (odds.draw(rng, root + len(ROOTS) * opposed) for odds in self.role_odds)
        known1 = opposed | (rng.random(number) < WITH_COUNTRY[role1])
        known2 = opposed | (rng.random(number) < WITH_COUNTRY[role2])
        chance, both = rng.random(number), known1 & known2
        first = marginals.BOTH_HOME + marginals.HOME_FIRST
        alone = chance < marginals.HOME_ALONE
        at_home1 = np.where(both, chance < first, alone)
        at_home2 = np.where(both, (chance < marginals.BOTH_HOME) | (chance >= first), alone)
        at_home1 = np.where(opposed, chance < 0.5, at_home1)
        at_home2 = np.where(opposed, chance >= 0.5, at_home2)
        partner = self.partner_odds.draw(rng, home)
        other = 1 + np.where(opposed, self.rivals[home, np.maximum(rival - 1, 0)], partner)
        land1 = known1 * np.where(at_home1, 1 + home, other)
        land2 = known2 * np.where(at_home2, 1 + home, other)
        return land1 * len(ROLES) + role1, land2 * len(ROLES) + role2

    def _blank(self, rng: Generator, rival: Ints, actor1: Ints, actor2: Ints) -> None:
        """Leave out one actor of some rows (never both, as in GDELT), but no rival."""
        free = rival == 0
        scale = len(free) / max(1, int(free.sum()))
        one, two = self.dirt.blank_actor1 * scale, self.dirt.blank_actor2 * scale
        chance = rng.random(len(free))
        actor1[free & (chance < one)] = 0
        actor2[free & (chance >= one) & (chance < one + two)] = 0

    def _shifts(self, rng: Generator, day: date, number: int) -> Ints:
        """Event dates: the news day, but for anniversaries, old news and slips."""
        dirt, chance = self.dirt, rng.random(number)
        late = np.minimum(rng.geometric(0.1, number), LATEST)
        ahead = rng.integers(1, 31, number)
        year_back = (_year_before(day) - day).days
        limits = np.cumsum([dirt.anniversary_rows, dirt.late_rows, dirt.future_rows])
        return np.select(
            [chance < limits[0], chance < limits[1], chance < limits[2]],
            [np.full(number, year_back), -late, ahead],
            np.zeros(number, np.int64),
        )

    def _tell_once(self, rng: Generator, rows: Stories) -> None:
        """Move rows that repeat a story by chance to another town."""
        actors = (len(self.lands) + 1) * len(ROLES)
        story = rows.stream * len(self.codes) + rows.code
        story = (story * actors + rows.actor1) * actors + rows.actor2
        story = (story * DATES + rows.shift + DATES // 2) * PLACES
        for _ in range(ATTEMPTS):
            order = np.argsort(story + rows.place, kind="stable")
            told = (story + rows.place)[order]
            again = order[1:][told[1:] == told[:-1]]
            again = again[rows.stream[again] < self.config.streams]
            if not len(again):
                return
            rows.place[again] = rng.integers(FIRST_TOWN, PLACES, len(again))

    def _tell_again(self, rng: Generator, rows: Stories) -> None:
        """Let some rows repeat the story of an earlier one of the same code, stream and rival.

        In the order of groups: a row tells again or is an original, the first of a group always
        the latter; `oldest` and `so_far` bound the originals of its group before it.
        """
        kinds = self.rivals.shape[1] + 1
        group = (rows.stream * len(self.codes) + rows.code) * kinds + rows.rival
        order = np.argsort(group, kind="stable")
        first = np.ones(len(rows), bool)
        first[1:] = group[order][1:] != group[order][:-1]
        share = self.dirt.retold_stories * len(rows) / max(1, int((~first).sum()))
        again = ~first & (rng.random(len(rows)) < share)
        originals = np.flatnonzero(~again)
        so_far = np.cumsum(~again)
        oldest = np.maximum.accumulate(np.where(first, so_far, 0)) - 1
        choice = oldest + (rng.random(len(rows)) * (so_far - oldest)).astype(np.int64)
        source, copy = order[originals[choice[again]]], order[again]
        for column in (rows.actor1, rows.actor2, rows.place, rows.shift):
            column[copy] = column[source]

    # --- writing ----------------------------------------------------------------------------------

    def _write(self, rng: Generator, rows: Rows, day: date, first_id: int) -> list[str]:
        number = len(rows)
        ids = [str(first_id + n) for n in range(number)]
        shifts, which = np.unique(rows.shift, return_inverse=True)
        dates = _texts([_date_text(day + timedelta(days=int(shift))) for shift in shifts])
        lead = _texts(["0", "1"])[rows.lead.astype(np.int64)]
        sources = (rng.random(number) < marginals.TWO_SOURCES).astype(np.int64)
        action = self.place_texts[rows.stream, rows.place]
        columns = [
            ids,
            dates[which].tolist(),
            self.actor_texts[rows.actor1, rows.names[0]].tolist(),
            self.actor_texts[rows.actor2, rows.names[1]].tolist(),
            lead.tolist(),
            self.event_texts[rows.code].tolist(),
            self.count_texts[rows.mentions, sources].tolist(),
            _tones(rng, rows.root),
            self._actor_places(rng, rows, rows.actor1, action),
            self._actor_places(rng, rows, rows.actor2, action),
            action.tolist(),
            self._stamps(day)[rows.quarter].tolist(),
            self._addresses(rng, rows, day, ids),
        ]
        return ["\t".join(parts) for parts in zip(*columns, strict=True)]

    def _actor_places(self, rng: Generator, rows: Rows, actor: Ints, action: Texts) -> list[str]:
        """Mostly the place of the event; else the actor's country, or not known."""
        chance, land = rng.random(len(rows)), actor // len(ROLES)
        away = (chance > 0.8) & (land > 0)
        texts = np.where(away, self.land_texts[land], action)
        texts[(actor == 0) | (chance < 0.02) | (rows.stream == self.config.streams)] = self.no_place
        return list(texts.tolist())

    def _stamps(self, day: date) -> Texts:
        """DATEADDED of each quarter hour."""
        if self.form == "v1":
            return _texts([f"{day:%Y%m%d}"] * QUARTERS)
        return _texts([f"{moment_of(day, quarter):%Y%m%d%H%M%S}" for quarter in range(QUARTERS)])

    def _addresses(self, rng: Generator, rows: Rows, day: date, ids: list[str]) -> list[str]:
        sites = _texts([f"{site}{day:%Y/%m/%d}/" for site in _SITES])
        chosen = sites[rng.integers(0, len(sites), len(rows))].tolist()
        lands, codes = self.slugs[rows.home].tolist(), self.code_slugs[rows.code].tolist()
        parts = zip(chosen, lands, codes, ids, strict=True)
        return [f"{site}{land}-{code}-{number}.html" for site, land, code, number in parts]


# --- blocks of fields -----------------------------------------------------------------------------


def moment_of(day: date, quarter: int) -> datetime:
    """When a quarter hour of a day (0 to 95) begins; its file is named after it."""
    return datetime.combine(day, time(quarter // 4, quarter % 4 * 15), UTC)


def _texts(values: list[Any]) -> Texts:
    return np.array(values, dtype=object)


def _unfold(counts: Ints) -> tuple[Ints, ...]:
    """The indices of each cell, as many times as it counts."""
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    return np.unravel_index(cells, counts.shape)


def _year_before(day: date) -> date:
    leap = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year - 1, day=28 if leap else day.day)


def _date_text(day: date) -> str:
    """SQLDATE, MonthYear, Year and FractionDate, the last by GDELT's months of 30 days."""
    fraction = day.year + ((day.month - 1) * 30 + day.day) / 365
    return f"{day:%Y%m%d}\t{day:%Y%m}\t{day.year}\t{fraction:.4f}"


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def _tones(rng: Generator, root: Ints) -> list[str]:
    """Per cent of good less bad words, so a fraction of the article's length, in 15 digits."""
    words = np.rint(np.exp(rng.normal(6.0, 0.6, len(root)))) + 30
    tone = np.array(marginals.TONES)[root] + marginals.TONE_DEVIATION * rng.standard_normal(
        len(root)
    )
    exact = 100 * np.rint(tone * words / 100) / words + 0.0  # no minus before a zero
    return [f"{value:.15g}" for value in exact.tolist()]


def _country_text(place: Place, *, second: bool) -> str:
    """A country as a place: no regions, and a point in round numbers."""
    regions = f"{place.fips}\t" if second else place.fips
    at = f"{round(place.latitude)}\t{round(place.longitude)}"
    return f"1\t{place.country.name}\t{place.fips}\t{regions}\t{at}\t{place.fips}"


def _place_texts(place: Place, *, second: bool) -> list[str]:
    """The fields of each place of a country: itself, provinces, the capital, invented towns."""
    rng = np.random.default_rng(list(place.fips.encode()))
    nation, fips = place.country.name, place.fips
    province, town = (2, 3) if fips == "US" else (5, 4)
    regions = [name.split(" (")[0] for name in place.provinces]
    seat = next((n for n, name in enumerate(regions) if name.startswith(place.capital)), 0)
    points = rng.normal((place.latitude, place.longitude), 1.2, (PLACES, 2))
    points = np.round(np.clip(points, (-85, -180), (85, 180)), 4).tolist()
    districts = rng.integers(10_000, 99_999, PLACES).tolist()
    features = rng.integers(100_000, 3_400_000, PLACES).tolist()

    def text(number: int, kind: int, name: str, region: int) -> str:
        district = f"\t{districts[number]}" if second else ""
        (latitude, longitude), feature = points[number], -features[number]
        start = f"{kind}\t{name}, {nation}\t{fips}\t{fips}{region + 1:02d}{district}"
        return f"{start}\t{latitude:.7g}\t{longitude:.7g}\t{feature}"

    texts = [_country_text(place, second=second)]
    texts += [text(n + 1, province, name, n) for n, name in enumerate(regions)]
    texts += [""] * (FIRST_TOWN - len(texts))  # fewer provinces than others: never drawn
    for n, name in enumerate(_town_names(rng, place.capital)):
        region = n % len(regions) if n else seat
        texts.append(text(FIRST_TOWN + n, town, f"{name}, {regions[region]}", region))
    return texts


def _town_names(rng: Generator, capital: str) -> list[str]:
    """The capital and as many invented names as there are towns, all different."""
    names = dict.fromkeys([capital])
    while len(names) < TOWNS:
        parts = rng.integers(0, len(_SYLLABLES), rng.integers(2, 4)).tolist()
        names["".join(_SYLLABLES[part] for part in parts).capitalize()] = None
    return list(names)
