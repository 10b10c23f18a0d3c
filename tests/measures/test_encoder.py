"""Each distinct text is encoded once, ever; and encoders are what they say."""

import contextlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdelphi.common.errors import (
    CacheError,
    ConfigError,
    EncoderError,
)
from gdelphi.common.sections import EmbedSettings
from gdelphi.common.settings import Settings
from gdelphi.common.types import VectorArray
from gdelphi.measures import encoder as embed
from gdelphi.measures.encoder import (
    EmbeddingCache,
    Encoder,
    HashingEncoder,
    SentenceEncoder,
    find_model,
    open_cache,
    open_encoder,
)

PHRASES = ["Kenyan police threaten protesters", "protesters threaten Kenyan police", "", "Kenyan"]

# Encodes the texts of a file, slowly and in small chunks, and writes down what it encoded.
DRIVER = """
import json, sys, time
from pathlib import Path
from gdelphi.measures import encoder
encoder.FIRST_CHUNK = encoder.LARGEST_CHUNK = 20
folder, texts, encoded, pause = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
class Slow(encoder.HashingEncoder):
    def encode(self, texts):
        with open(encoded, "a") as log:
            log.writelines(json.dumps(text) + "\\n" for text in texts)
        time.sleep(pause)
        return super().encode(texts)
cache = encoder.EmbeddingCache(folder, Slow())
print("ready", flush=True)
cache.embed(json.loads(Path(texts).read_text()))
"""


class CountingEncoder(HashingEncoder):
    """Remembers what it was asked."""

    def __init__(self, revision: str = "1") -> None:
        super().__init__()
        self.revision = revision
        self.calls: list[list[str]] = []

    @property
    def encoded(self) -> list[str]:
        return [text for call in self.calls for text in call]

    def encode(self, texts: Sequence[str]) -> VectorArray:
        self.calls.append(list(texts))
        return super().encode(texts)


class BrokenEncoder(HashingEncoder):
    """Gives what it is told to give."""

    def __init__(self, answer: Any) -> None:
        super().__init__(dimension=4)
        self.answer = answer

    def encode(self, texts: Sequence[str]) -> VectorArray:
        vectors: VectorArray = self.answer
        return vectors


def many_texts(first: int, last: int) -> list[str]:
    return [f"actor {number} meets actor {number % 7}" for number in range(first, last)]


def start_driver(folder: Path, texts: list[str], log: Path, pause: float) -> subprocess.Popen[str]:
    wanted = log.with_suffix(".wanted")
    wanted.write_text(json.dumps(texts))
    words = [sys.executable, "-c", DRIVER, str(folder), str(wanted), str(log), str(pause)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder.parent
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def lines_of(log: Path) -> list[str]:
    """The texts in a log, without lines that a kill cut in half: the next one is glued to it."""
    texts = []
    for line in log.read_text().splitlines() if log.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            texts.append(json.loads(line))
    return texts


def run_python(source: str, *arguments: str) -> str:
    words = [sys.executable, "-W", "error", "-c", source, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    pytest.importorskip("sentence_transformers")
    return open_encoder(EmbedSettings(device="cpu"))


@pytest.fixture
def copied_model(tmp_path: Path) -> Path:
    """The small files of MiniLM and weights that are none."""
    folder = tmp_path / "model"
    _, packaged = find_model("minilm")
    shutil.copytree(packaged, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


# The hashing encoder


def test_hashing_gives_unit_vectors_and_like_ones_for_like_texts() -> None:
    vectors = HashingEncoder().encode(
        ["police threaten protesters", "police threaten workers", "rain falls on empty fields", ""]
    )
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_hashing_does_not_depend_on_the_process() -> None:
    source = (
        "from gdelphi.measures.encoder import *; "
        "print(HashingEncoder().encode(['a b c']).tobytes().hex())"
    )
    assert run_python(source).strip() == HashingEncoder().encode(["a b c"]).tobytes().hex()


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"))), st.integers(1, 8))
def test_hashing_never_gives_zero(texts: list[str], dimension: int) -> None:
    texts += [" ".join(texts), " \n", "a b a b"]
    vectors = HashingEncoder(dimension).encode(texts)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


# The cache


def test_order_and_repetitions_are_kept(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    texts = ["b", "a long text of words", "b", "", "a", "a long text of words"]
    assert np.array_equal(cache.embed(texts), HashingEncoder().encode(texts))
    assert np.array_equal(cache.embed(texts[::-1]), HashingEncoder().encode(texts[::-1]))
    assert cache.size == 4


def test_each_text_is_encoded_once(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    cache = EmbeddingCache(tmp_path, encoder)
    cache.embed(["a", "b", "a"])
    cache.embed(["b", "c", "c"])
    EmbeddingCache(tmp_path, encoder).embed(["c", "a"])
    assert sorted(encoder.encoded) == ["a", "b", "c"]


def test_known_tells_what_needs_no_encoding(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "new", HashingEncoder())
    assert cache.known(["a", "b"]).tolist() == [False, False]
    assert not (tmp_path / "new").exists(), "asking makes no file"
    cache.embed(["a", ""])
    assert cache.known(["a", "b", "", "a"]).tolist() == [True, False, True, True]


def test_no_texts_give_no_vectors(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    for _ in range(2):
        assert cache.embed([]).shape == (0, 64)
        assert cache.known([]).shape == (0,)
        assert cache.size in (0, 1)
        cache.embed(["a"])


def test_chunks_are_told_as_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "FIRST_CHUNK", 4)
    monkeypatch.setattr(embed, "LARGEST_CHUNK", 8)
    cache = EmbeddingCache(tmp_path, CountingEncoder())
    heard = []
    cache.embed(["x"])
    cache.embed(
        ["x", *many_texts(0, 20)], lambda done, total: heard.append((done, total, cache.size))
    )
    assert heard == [(4, 20, 5), (12, 20, 13), (20, 20, 21)]


def test_texts_of_like_length_are_encoded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "FIRST_CHUNK", 10)
    monkeypatch.setattr(embed, "LARGEST_CHUNK", 10)
    texts = ["x" * length for length in range(1, 31)]
    random.Random(3).shuffle(texts)
    encoder = CountingEncoder()
    vectors = EmbeddingCache(tmp_path, encoder).embed(texts)
    assert [len(text) for text in encoder.encoded] == list(range(30, 0, -1))
    assert np.array_equal(vectors, HashingEncoder().encode(texts))


def test_another_revision_has_its_own_file(tmp_path: Path) -> None:
    old, new = CountingEncoder("1"), CountingEncoder("2")
    EmbeddingCache(tmp_path, old).embed(["a"])
    EmbeddingCache(tmp_path, new).embed(["a"])
    assert old.encoded == new.encoded == ["a"]
    assert sorted(path.name for path in tmp_path.glob("*.sqlite")) == [
        "hashing-1.sqlite",
        "hashing-2.sqlite",
    ]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=12))
def test_any_unicode_comes_back_as_it_was_put_in(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        encoder = CountingEncoder()
        cache = EmbeddingCache(Path(folder), encoder)
        expected = HashingEncoder().encode(texts)
        assert np.array_equal(cache.embed(texts), expected)
        assert cache.known(texts).all()
        assert np.array_equal(cache.embed(texts), expected)
        assert sorted(encoder.encoded) == sorted(set(texts))


def test_half_characters_are_refused(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    for ask in (cache.embed, cache.known):
        with pytest.raises(CacheError, match="lone surrogate"):
            ask(["sound", "half \ud83d gone"])
    with pytest.raises(CacheError):
        cache.embed(["\ud83d", "\ude00"])  # two halves in two texts make no whole
    assert cache.size == 0


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (np.full((2, 4), np.nan, np.float32), "not finite"),
        (np.array([[1, 0, 0, np.inf], [1, 0, 0, 0]], np.float32), "not finite"),
        (np.ones((2, 5), np.float32), r"\(2, 5\), not \(2, 4\)"),
        (np.ones((1, 4), np.float32), r"\(1, 4\), not \(2, 4\)"),
    ],
)
def test_vectors_that_are_none_are_never_kept(
    tmp_path: Path, answer: VectorArray, complaint: str
) -> None:
    cache = EmbeddingCache(tmp_path, BrokenEncoder(answer))
    with pytest.raises(EncoderError, match=complaint):
        cache.embed(["a", "b"])
    assert cache.size == 0
    assert not cache.known(["a", "b"]).any()


# Files that are damaged, foreign or write-protected


def test_a_file_of_something_else_is_named_and_left_alone(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    cache.path.write_bytes(b"not a database at all" * 1000)
    before = cache.path.read_bytes()
    for ask in (cache.embed, cache.known):
        with pytest.raises(CacheError, match=f"{cache.path.name}.*Delete it"):
            ask(["a"])
    assert cache.path.read_bytes() == before


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    connection = sqlite3.connect(cache.path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(CacheError, match="something else"):
        cache.embed(["a"])


def test_a_file_of_another_encoder_under_this_name_is_refused(tmp_path: Path) -> None:
    other = EmbeddingCache(tmp_path, CountingEncoder("1"))
    other.embed(["a"])
    cache = EmbeddingCache(tmp_path, CountingEncoder("2"))
    other.path.rename(cache.path)
    with pytest.raises(CacheError, match="its revision is 1, not 2"):
        cache.known(["a"])


def test_a_file_cut_short_anywhere_is_noticed_or_holds_true(tmp_path: Path) -> None:
    texts = many_texts(0, 400)
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    expected = cache.embed(texts)
    whole = cache.path.read_bytes()
    noticed = 0
    for length in range(0, len(whole), 5000):
        cache.path.write_bytes(whole[:length])
        try:
            assert np.array_equal(cache.embed(texts), expected)
        except CacheError:
            noticed += 1
    assert noticed >= 10


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    content = HashingEncoder().encode(["a b"]).tobytes()
    cache.embed(["a b"])
    whole = cache.path.read_bytes()
    for changed in (bytes(len(content)), content[:-1] + b"\x01"):
        assert whole.count(content) == 1
        cache.path.write_bytes(whole.replace(content, changed))
        with pytest.raises(CacheError, match="were changed"):
            cache.embed(["a b"])


def test_a_file_that_was_made_but_never_filled_is_used(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, HashingEncoder())
    cache.path.touch()
    assert cache.size == 0
    cache.embed(["a"])
    assert cache.size == 1


def test_where_nothing_can_be_written_known_texts_can_be_read() -> None:
    source = """
import os, sys
from pathlib import Path
from gdelphi.measures.encoder import EmbeddingCache, HashingEncoder
from gdelphi.common.errors import CacheError
folder = Path(sys.argv[1])
cache = EmbeddingCache(folder, HashingEncoder())
cache.embed(["a", "b"])
for path in (*folder.iterdir(), folder):
    path.chmod(0o555)
if os.geteuid() == 0:
    os.setuid(65534)  # nothing is forbidden to root
print(cache.known(["a", "c"]).tolist(), cache.embed(["b", "a"]).shape)
try:
    cache.embed(["c"])
except CacheError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "cache"
        folder.mkdir()
        shown, complaint = run_python(source, str(folder)).splitlines()
        folder.chmod(0o755)
    assert shown == "[True, False] (2, 64)"
    assert "embed.cache" in complaint


# Several processes


def test_another_process_encodes_nothing_anew(tmp_path: Path) -> None:
    folder, texts = tmp_path / "cache", many_texts(0, 50)
    finish(start_driver(folder, texts, tmp_path / "first.log", 0))
    finish(start_driver(folder, texts, tmp_path / "second.log", 0))
    assert sorted(lines_of(tmp_path / "first.log")) == sorted(texts)
    assert lines_of(tmp_path / "second.log") == []


def test_processes_at_once_encode_each_text_once_between_them(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    wanted = [many_texts(0, 200), many_texts(100, 300), many_texts(50, 250)]
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    processes = [start_driver(folder, *pair, 0.02) for pair in zip(wanted, logs, strict=True)]
    for process in processes:
        finish(process)
    assert sorted(text for log in logs for text in lines_of(log)) == sorted(many_texts(0, 300))
    encoder = CountingEncoder("1-64")
    texts = many_texts(0, 300)
    assert np.array_equal(
        EmbeddingCache(folder, encoder).embed(texts), HashingEncoder().encode(texts)
    )
    assert encoder.calls == []


def test_killed_at_many_moments_whole_chunks_are_there_and_the_rest_follows(
    tmp_path: Path,
) -> None:
    folder, log, texts = tmp_path / "cache", tmp_path / "log", many_texts(0, 600)
    cache = EmbeddingCache(folder, HashingEncoder())
    rng = random.Random(7)
    struck, sizes = 0, [0]
    while cache.size < len(texts):
        process = start_driver(folder, texts, log, 0.005)
        time.sleep(rng.uniform(0, 0.12 + 0.01 * struck))  # longer in the end: it may be slow here
        struck += process.poll() is None
        process.kill()
        process.communicate()
        sizes.append(cache.size)
    assert struck >= 3, "too few kills struck to show anything"
    assert sizes == sorted(sizes), "what was kept stays"
    assert all(size % 20 == 0 for size in sizes), "chunks are kept whole"
    assert np.array_equal(cache.embed(texts), HashingEncoder().encode(texts))
    assert len(lines_of(log)) <= len(texts) + 20 * struck, "a kill costs at most its chunk"


# Opening


def test_opening_and_known_texts_need_no_torch(tmp_path: Path, minilm: Encoder) -> None:
    EmbeddingCache(tmp_path, minilm).embed(PHRASES)
    source = """
import json, sys
from pathlib import Path
from gdelphi.common.sections import EmbedSettings
from gdelphi.common.settings import Settings
from gdelphi.measures.encoder import open_cache
cache = open_cache(Settings(embed=EmbedSettings(cache=Path(sys.argv[1]), device="cpu")))
print(cache.embed(json.loads(sys.argv[2])).shape)
print([name for name in ("torch", "sentence_transformers", "transformers") if name in sys.modules])
"""
    shown = run_python(source, str(tmp_path), json.dumps(PHRASES))
    assert shown.splitlines() == ["(4, 384)", "[]"]


def test_the_cache_lies_beside_the_store_unless_set(tmp_path: Path) -> None:
    hashing = EmbedSettings(encoder="hashing")
    cache = open_cache(Settings(store=tmp_path / "s.duckdb", embed=hashing))
    assert cache.path.parent == tmp_path / "embeddings"
    cache = open_cache(Settings(embed=EmbedSettings(encoder="hashing", cache=tmp_path / "c")))
    assert cache.path.parent == tmp_path / "c"


def test_an_encoder_out_of_reach_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_: Any, **__: Any) -> str:
        raise OSError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(ConfigError, match=r"nobody/model is no folder.*\(no route\).*minilm"):
        open_encoder(EmbedSettings(encoder="nobody/model"))


def test_a_hub_model_is_looked_for_on_the_disk_first(
    copied_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked = []

    def download(name: str, *, local_files_only: bool = False, **_: Any) -> str:
        asked.append((name, local_files_only))
        if len(asked) == 1:
            raise FileNotFoundError
        return str(copied_model)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    encoder = open_encoder(EmbedSettings(encoder="some-model"))
    assert (encoder.name, encoder.dimension) == ("some-model", 384)
    full = "sentence-transformers/some-model"
    assert asked == [(full, True), (full, False)]
    open_encoder(EmbedSettings(encoder="some-model"))
    assert asked[2:] == [(full, True)]


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "~/no/such/one"])
def test_a_folder_that_is_missing_is_not_sought_on_the_hub(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no folder {name}"):
        open_encoder(EmbedSettings(encoder=name))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no model"):
        open_encoder(EmbedSettings(encoder=str(tmp_path)))


def test_missing_packages_are_named(copied_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = open_encoder(EmbedSettings(encoder=str(copied_model), device="cpu"))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EncoderError, match=r"gdelphi\[model\]"):
        encoder.encode(["a"])
    monkeypatch.setattr(embed, "MINILM_PACKAGE", "no_such_package")
    with pytest.raises(EncoderError, match=r"gdelphi\[model\]"):
        open_encoder(EmbedSettings())


def test_damaged_weights_are_an_error_of_one_line(copied_model: Path) -> None:
    encoder = open_encoder(EmbedSettings(encoder=str(copied_model), device="cpu"))
    with pytest.raises(EncoderError, match="no model can be loaded"):
        encoder.encode(["a"])


def test_the_revision_follows_weights_settings_and_precision_only(copied_model: Path) -> None:
    def revision(**values: Any) -> str:
        return open_encoder(
            EmbedSettings(encoder=str(copied_model), device="cpu", **values)
        ).revision

    first = revision()
    (copied_model / "README.md").write_text("changed")
    (copied_model / "onnx").mkdir()
    (copied_model / "onnx" / "config.json").write_text("{}")
    assert revision(batch_size=7) == first
    assert revision(precision="float32") == first
    seen = {first, revision(precision="bfloat16")}
    for name in ("model.safetensors", "1_Pooling/config.json", "vocab.txt"):
        with (copied_model / name).open("ab") as file:
            file.write(b" ")
        seen.add(revision())
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("pooling", "dense", "cut", "dimension"),
    [
        ({"embedding_dimension": 12, "pooling_mode": "mean"}, None, None, 12),
        ({"embedding_dimension": 12, "pooling_mode": ["mean", "max"]}, None, None, 24),
        ({"word_embedding_dimension": 12, "pooling_mode_max_tokens": True}, None, 5, 5),
        ({"embedding_dimension": 12, "pooling_mode": "mean"}, {"out_features": 8}, None, 8),
    ],
)
def test_the_dimension_comes_from_the_small_files(
    copied_model: Path, pooling: Any, dense: Any, cut: int | None, dimension: int
) -> None:
    (copied_model / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (copied_model / "config_sentence_transformers.json").write_text(
        json.dumps({"truncate_dim": cut})
    )
    if dense:
        (copied_model / "2_Normalize").mkdir()
        (copied_model / "2_Normalize" / "config.json").write_text(json.dumps(dense))
    assert open_encoder(EmbedSettings(encoder=str(copied_model))).dimension == dimension


# MiniLM itself


def test_minilm_gives_the_cosines_that_were_measured(minilm: Encoder) -> None:
    one, swapped, praise, other = minilm.encode(
        [*PHRASES[:2], "Kenyan police praise protesters", "Heavy rain falls on empty fields"]
    )
    assert one @ swapped == pytest.approx(0.992, abs=0.001)
    assert one @ praise == pytest.approx(0.847, abs=0.001)
    assert one @ other < 0.2


def test_minilm_gives_unit_vectors_of_its_dimension(minilm: Encoder) -> None:
    vectors = minilm.encode(PHRASES)
    assert vectors.shape == (4, minilm.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_texts_encoded_together_or_one_by_one_get_the_same_vectors(minilm: Encoder) -> None:
    texts = [" ".join(PHRASES[: 1 + number % 2] * (1 + number % 3)) for number in range(6)]
    texts += ["", "word " * 400]
    together = minilm.encode(texts)
    single = np.concatenate([minilm.encode([text]) for text in texts])
    assert np.abs(together - single).max() < 1e-5
    assert isinstance(minilm, SentenceEncoder)
    plain = minilm._model.encode(texts, batch_size=8, show_progress_bar=False)
    assert np.abs(together - plain).max() < 1e-5


def test_a_local_model_asks_nothing_of_the_network_and_shows_no_bar() -> None:
    source = """
import os, socket
def refuse(*_, **__):
    os.write(2, b"the network was asked")  # also heard from a thread
    raise OSError
socket.socket.connect = socket.getaddrinfo = refuse
from gdelphi.common.sections import EmbedSettings
from gdelphi.measures.encoder import open_encoder
print(open_encoder(EmbedSettings(device="cpu")).encode(["a"]).shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("(1, 384)\n", "")


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_comes_back_as_float32(minilm: Encoder, precision: Any) -> None:
    encoder = open_encoder(EmbedSettings(device="cpu", precision=precision))
    assert encoder.revision != minilm.revision
    vectors = encoder.encode(PHRASES)
    assert vectors.dtype == np.float32
    assert 0 < np.abs(vectors - minilm.encode(PHRASES)).max() < 0.01


@pytest.mark.parametrize("device", ["cuda", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    encoder = open_encoder(EmbedSettings(device=device))
    with pytest.raises(ConfigError, match=f"embed.device = {device}"):
        encoder.encode(["a"])


class ScarceModel:
    """Runs out of memory beyond some texts at a time."""

    tokenizer = None

    def __init__(self, room: int, complaint: str = "CUDA out of memory") -> None:
        self.room, self.complaint = room, complaint
        self.sizes: list[int] = []

    def encode(self, texts: list[str], **_: Any) -> VectorArray:
        self.sizes.append(len(texts))
        if len(texts) > self.room:
            raise RuntimeError(self.complaint)
        return np.array([[float(text)] * 384 for text in texts], np.float32)


@pytest.fixture
def scarce() -> Callable[[ScarceModel], Encoder]:
    """An encoder around such a model."""

    def make(model: ScarceModel) -> Encoder:
        encoder = open_encoder(EmbedSettings(batch_size=16, device="cpu"))
        encoder.__dict__["_model"] = model
        return encoder

    return make


def test_short_of_memory_it_goes_on_with_smaller_batches(scarce: Any) -> None:
    model = ScarceModel(room=5)
    numbers = range(10, 50)
    vectors = scarce(model).encode([str(number) for number in numbers])
    assert vectors[:, 0].tolist() == list(numbers)
    assert model.sizes == [16, 8, *[4] * 10]


def test_without_room_for_one_text_the_setting_is_named(scarce: Any) -> None:
    with pytest.raises(EncoderError, match=r"embed\.batch_size"):
        scarce(ScarceModel(room=0)).encode(["1", "2"])


def test_other_errors_of_the_model_are_not_taken_for_lack_of_memory(scarce: Any) -> None:
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scarce(ScarceModel(0, "shapes do not match")).encode(["1", "2"])
