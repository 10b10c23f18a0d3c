"""Benchmark: what turning rows into points costs, against the encoder alone and against plain use.

    python benchmarks/embed.py [--shared ../shared/data] [--turns 3]

A whole day of real 15-minute files. In turns within one run:
1. New phrases: the whole stage (store, phrases, clouds, encoding, cache, space, points) against the
   encoder alone, in phrases per second. Goal: 0.9 of the encoder's speed.
2. Known phrases: the same day again with nothing kept but the cache and the space, against encoding
   its phrases. Goal: under 2%.
3. Rows per second against `SentenceTransformer.encode` over the sentence of every row.
Encoding a whole day takes minutes, so its time is taken from a random sample of its phrases.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gdelphi.common.settings import Settings, load_settings
from gdelphi.measures.clouds import Clouds, measures_folder
from gdelphi.measures.embed import embed, texts_of
from gdelphi.measures.encoder import open_cache, open_encoder
from gdelphi.measures.phrases import actor_key_sql, sentence
from gdelphi.measures.space import Points
from gdelphi.store.connection import Store
from gdelphi.store.ingest import IngestRequest, ingest

NEW_GOAL, KNOWN_GOAL = 0.9, 0.02
SAMPLE = 1500  # phrases or rows that encoding is timed on


def settings_for(work: Path) -> Settings:
    given = {
        "store": work / "store.duckdb",
        "measures.folder": work / "measures",
        "embed.cache": work / "embeddings",
        "split.train": 0.9,
    }
    return load_settings(None, given).settings


def seconds(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def stage(settings: Settings) -> float:
    """From the store to the points of every cloud; without descriptors. Seconds."""
    began = time.perf_counter()
    done = embed(settings)
    points = Points(done.space, open_cache(settings))
    clouds = Clouds(measures_folder(settings))
    for day in clouds.days:
        on = clouds.on(day)
        for stream in on.streams if on else ():
            if on is not None:
                points.of(on.cloud(stream))
    return time.perf_counter() - began - done.described.seconds


def forget(settings: Settings, *, everything: bool) -> None:
    """Clouds and descriptors; or the space and the cache as well."""
    folder = measures_folder(settings)
    for path in (folder / "clouds", folder / "descriptors"):
        shutil.rmtree(path, ignore_errors=True)
    if everything and settings.embed.cache:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(settings.embed.cache, ignore_errors=True)


def all_sentences(settings: Settings) -> list[str]:
    """The sentence of every row, as it comes."""
    with Store(settings).reading() as connection:
        rows = connection.rows(
            f"SELECT {actor_key_sql(1)}, EventCode, {actor_key_sql(2)}, ActionGeo_CountryCode "
            "FROM events ORDER BY GLOBALEVENTID"
        )
    return [sentence(*row) for row in rows]


def spread(values: Sequence[float]) -> str:
    return f"{np.median(values):.3g} ({min(values):.3g}..{max(values):.3g})"


def measure(work: Path, turns: int) -> None:
    settings = settings_for(work)
    sentences = all_sentences(settings)
    forget(settings, everything=True)
    embed(settings)
    clouds = Clouds(measures_folder(settings))
    texts = sorted(texts_of(clouds, clouds.days))
    phrases = sorted(set(sentences))
    encoder = open_encoder(settings.embed)
    encoder.encode(texts[:64])  # loads the weights
    random = np.random.default_rng(7)
    some = [phrases[place] for place in random.choice(len(phrases), SAMPLE)]
    plain = [sentences[place] for place in random.choice(len(sentences), SAMPLE)]
    new, known, alone, plainly = [], [], [], []
    for _ in range(turns):
        alone.append(seconds(lambda: encoder.encode(some)) * len(phrases) / SAMPLE)
        forget(settings, everything=True)
        new.append(stage(settings))
        forget(settings, everything=False)
        known.append(stage(settings))
        plainly.append(seconds(lambda: _plain(plain)) * len(sentences) / SAMPLE)
    rows = len(sentences)
    print(f"\n{rows:,} rows, {len(phrases):,} distinct phrases, {len(texts):,} texts")
    print(f"  encoder alone             {per_second(len(phrases), alone)} phrases/s")
    print(f"  stage, all new            {per_second(len(phrases), new)} phrases/s")
    ratio = [a / b for a, b in zip(alone, new, strict=True)]
    verdict = "met" if np.median(ratio) >= NEW_GOAL else "MISSED"
    print(f"  of the encoder's speed    {spread(ratio)}   goal {NEW_GOAL}: {verdict}")
    again = [a / b for a, b in zip(known, alone, strict=True)]
    verdict = "met" if np.median(again) < KNOWN_GOAL else "MISSED"
    print(f"  stage, all known          {spread(known)} s, {per_second(rows, known)} rows/s")
    print(f"  of encoding its phrases   {spread(again)}   goal {KNOWN_GOAL}: {verdict}")
    gains = [spread([a / b for a, b in zip(plainly, each, strict=True)]) for each in (new, known)]
    print(f"  plain encode of all rows  {per_second(rows, plainly)} rows/s")
    print(f"  stage against that        all new {gains[0]} times, all known {gains[1]} times")


def per_second(number: int, times: Sequence[float]) -> str:
    return f"{number / float(np.median(times)):,.0f}"


def _plain(texts: list[str]) -> object:
    from sentence_transformers import SentenceTransformer

    from gdelphi.measures.encoder import find_model

    if not _models:
        _models.append(SentenceTransformer(str(find_model("minilm")[1]), device="cpu"))
        _models[0].encode(texts[:64], show_progress_bar=False)
    return _models[0].encode(texts, show_progress_bar=False)


_models: list = []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    zips = sorted((given.shared / "gdelt2-world").glob("*.zip"))
    if not zips:
        sys.exit(f"no files in {given.shared / 'gdelt2-world'}: give --shared")
    same_day = [path for path in zips if path.name[:8] == zips[0].name[:8]]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        ingest(settings_for(work), IngestRequest(files=tuple(same_day)))
        _plain(["warm up"] * 64)
        measure(work, given.turns)


if __name__ == "__main__":
    main()
