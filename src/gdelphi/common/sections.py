"""The sections of the settings, one class each: what can be set, its default and its meaning."""

from datetime import date
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

# The bucket of GDELT's site under a name that its certificate is valid for; the site itself,
# http://data.gdeltproject.org, answers https with the certificate of another.
GDELT1 = "https://storage.googleapis.com/data.gdeltproject.org/events/"
GDELT2 = "https://storage.googleapis.com/data.gdeltproject.org/gdeltv2/"

AttentionKind = Literal["softmax", "l2", "sinkhorn", "sigmoid"]
FlowGradient = Literal["backpropagation", "adjoint"]
CAUSAL_SINKHORN: Final = (
    "Sinkhorn attention shares the points among all queries, those of later days too: in a causal "
    "layer it would leak the future; take softmax, l2 or sigmoid"
)


CRON_FIELDS = {
    "minute": (0, 59), "hour": (0, 23), "day of the month": (1, 31), "month": (1, 12),
    "day of the week": (0, 7),
}  # fmt: skip
CRON_NAMES = {
    name: number
    for names in (
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        [*["mon", "tue", "wed", "thu", "fri", "sat", "sun"]],
    )
    for number, name in enumerate(names, start=1)
}


def check_cron(text: str) -> None:
    """Refuse what is no cron line of five fields; ValueError."""
    fields = text.split()
    if len(fields) != len(CRON_FIELDS):
        raise ValueError(
            f"not a cron line: {len(fields)} fields where there are five, minute, hour, day of the "
            'month, month and day of the week, as in "30 11 * * *" (each day at 11:30)'
        )
    for field, (name, (low, high)) in zip(fields, CRON_FIELDS.items(), strict=True):
        for part in field.split(","):
            span, _, step = part.partition("/")
            ends = [] if span == "*" else [_cron_number(end) for end in span.split("-")]
            known = all(end is not None and low <= end <= high for end in ends)
            if len(ends) > 2 or not known or (step or "1") == "0" or not (step or "1").isdigit():
                raise ValueError(f"not a cron line: {part!r} is no {name} from {low} to {high}")


def _cron_number(text: str) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text)
    return CRON_NAMES.get(text.lower())


class Section(BaseModel):
    """Base: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class IngestSettings(Section):
    """How archives are read."""

    archive: str = Field(GDELT1, description="URL or folder; gdelt1 and gdelt2 name GDELT's site")
    label: str | None = Field(
        None, description="name of the archive in the ledger, so that a mirror may take its place"
    )
    translated: bool = Field(False, description="read the feed of translated news too (GDELT 2.0)")
    reduced: bool = Field(False, description="read MASTERREDUCEDV2 too, where the archive has it")
    jobs: int = Field(4, ge=1, le=64, description="files fetched and unpacked at the same time")
    default_days: int = Field(
        400, ge=1, description="days taken from a large archive when nothing says since when"
    )
    default_gigabytes: float = Field(
        2.0,
        ge=0,
        description="an archive up to this size is taken whole when nothing says since when",
    )
    downloads: Path = Field(Path("data/downloads"), description="folder for files being fetched")
    keep_downloads: bool = Field(False, description="keep fetched files after loading them")
    attempts: int = Field(5, ge=1, description="tries for each file before the run gives it up")
    backoff_seconds: float = Field(1.0, ge=0, description="first pause between tries; it doubles")
    timeout_seconds: float = Field(30.0, gt=0, description="silence after which a server stalls")
    max_download_gigabytes: float = Field(
        4.0, gt=0, description="cap on one file to fetch; what a list says to be larger is refused"
    )
    max_unpacked_gigabytes: float = Field(8.0, gt=0, description="cap on one file's text")


class EmbedSettings(Section):
    """How texts become vectors."""

    encoder: str = Field(
        "minilm",
        description="minilm (the packaged all-MiniLM-L6-v2), a folder, a hub name, or hashing "
        "(for tests only)",
    )
    cache: Path | None = Field(
        None, description="folder of the embedding cache; `embeddings` beside the store if unset"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|(cpu|cuda|mps|xpu)(:\d+)?)$",
        description="auto, cpu, cuda, cuda:1, mps",
    )
    precision: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="of the encoder; halves are quicker on a GPU, and other vectors"
    )
    batch_size: int = Field(256, ge=1, description="texts encoded at once")


class MeasureSettings(Section):
    """How a day becomes a measure on the sphere, and a descriptor."""

    folder: Path | None = Field(
        None, description="clouds, space and descriptors; <store>.measures beside it if unset"
    )
    since: date | None = Field(
        None, description="first day that is measured; earlier ones stay in the store alone"
    )
    verb_weight: float = Field(0.65, gt=0, lt=1, description="share of the verb in a point")
    actor1_weight: float = Field(
        0.2, ge=0, lt=1, description="share of actor 1; the rest is actor 2's"
    )
    verb_dimensions: int = Field(32, ge=2, description="dimensions kept of a verb")
    actor_dimensions: int = Field(32, ge=2, description="dimensions kept of an actor")
    fewest_atoms: int = Field(3, ge=1, description="atoms of a descriptor, at least")
    most_atoms: int = Field(10, ge=1, le=10, description="atoms of a descriptor, at most")
    explained: float = Field(
        0.6, gt=0, le=1, description="a descriptor takes atoms until it explains this much"
    )

    @model_validator(mode="after")
    def _leave_room(self) -> Self:
        if self.verb_weight + self.actor1_weight > 1:
            raise ValueError("verb_weight and actor1_weight leave nothing for actor 2")
        if self.fewest_atoms > self.most_atoms:
            raise ValueError("fewest_atoms is more than most_atoms")
        return self


class SequenceSettings(Section):
    """What training reads."""

    streams: int = Field(
        50, ge=1, description="countries, those with the most rows on training days"
    )
    only: tuple[str, ...] = Field((), description="these streams, in place of the largest")
    context_days: int = Field(50, ge=1, description="days of clouds that a forecast looks back on")
    memory_days: int = Field(365, ge=1, description="days of descriptors that it may draw from")
    variants: int = Field(
        4, ge=0, description="random descriptors of each day, beside the day's own"
    )


class SplitSettings(Section):
    """Which days are for what, by the day that is forecast."""

    train: float = Field(0.6, gt=0, lt=1, description="share of days for training")
    validation_a: float = Field(
        0.1, gt=0, lt=1, description="share for validation A: early stopping"
    )
    validation_b: float = Field(0.1, gt=0, lt=1, description="share for validation B: calibration")
    train_until: date | None = Field(None, description="last day of training, in place of a share")
    validation_a_until: date | None = Field(None, description="last day of validation A")
    validation_b_until: date | None = Field(None, description="last day of validation B")
    embargo_days: int = Field(7, ge=0, description="days left out between two parts")


class TrainSettings(Section):
    """How the measure transformer is trained, and its sizes."""

    steps: int = Field(500, ge=1, description="training steps, at most")
    batch: int = Field(12, ge=1, description="batch size: sequences of a step, over all processes")
    points: int = Field(64, ge=1, description="points of a cloud that a step looks at, at most")
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate of AdamW")
    warm_up: int = Field(50, ge=0, description="learning-rate warm-up steps")
    weight_decay: float = Field(
        1.0, ge=0, description="weight decay of matrices; biases and norms have none"
    )
    clip: float = Field(1.0, gt=0, description="norm that gradients are clipped to")
    ema: float = Field(0.99, ge=0, lt=1, description="EMA decay of the weights")
    patience: int = Field(6, ge=1, description="evaluations without improvement before stopping")
    evaluate_every: int = Field(50, ge=1, description="steps between evaluations on validation A")
    save_every: int = Field(50, ge=1, description="steps between checkpoints")
    keep_checkpoints: int = Field(
        6, ge=0, description="steps whose weights are kept for `gdelphi inspect`, at most; 0: none"
    )
    log_every: int = Field(10, ge=1, description="steps between lines of metrics.jsonl")
    seed: int = Field(0, ge=0, description="the same seed gives the same model")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto, cpu, cuda")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of products; auto is bfloat16 on a GPU that has it"
    )
    width: int = Field(96, ge=4, description="model width")
    layers: int = Field(2, ge=0, description="decoder blocks")
    heads: int = Field(4, ge=1, description="attention heads; they share the width evenly")
    queries: int = Field(3, ge=1, description="tokens that a cloud becomes")
    day_heads: int = Field(4, ge=1, description="heads of the attention over past days")
    slots: int = Field(12, ge=1, description="atoms of a future, at most")
    cloud_attention: AttentionKind = Field(
        "softmax", description="how clouds are read: softmax, l2, sinkhorn, sigmoid"
    )
    decoder_attention: AttentionKind = Field(
        "softmax", description="of the decoder's causal blocks: softmax, l2, sigmoid"
    )
    transport_layers: int = Field(2, ge=0, description="blocks that move atoms; 0 leaves them")
    transport: Literal["blocks", "flow"] = Field(
        "blocks",
        description="blocks, or a flow in time, of which transport_layers are the pieces that have "
        "parameters of their own",
    )
    transport_steps: int = Field(4, ge=1, description="steps of time of the flow")
    transport_gradient: FlowGradient = Field(
        "backpropagation",
        description="of the flow: backpropagation, or adjoint, whose memory is free of the steps",
    )
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout in training")
    profiles_weight: float = Field(1.0, ge=0, description="of the profile reading in the loss")
    direct_weight: float = Field(1.0, ge=0, description="of the direct reading in the loss")
    rows_weight: float = Field(0.2, ge=0, description="of the number of rows in the loss")
    atoms_weight: float = Field(0.1, ge=0, description="of the reading of atoms in the loss")
    energy_weight: float = Field(1.0, ge=0, description="of the futures' energy score in the loss")
    futures: int = Field(32, ge=2, description="futures drawn for a day in training")
    cell_epochs: int = Field(
        6, ge=0, description="epochs of the cell network, which adds to the stack; 0: none"
    )
    context_steps: int = Field(
        600, ge=0, description="steps of the context network, which adds to the stack; 0: none"
    )
    decoder_steps: int = Field(
        45, ge=0, description="training steps of the decoder of the expected day; 0: none"
    )

    @model_validator(mode="after")
    def _share_width(self) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width must be even and divide by heads ({self.heads})")
        return self

    @model_validator(mode="after")
    def _see_no_future(self) -> Self:
        if self.decoder_attention == "sinkhorn":
            raise ValueError(f"decoder_attention: {CAUSAL_SINKHORN}")
        return self


class TextSettings(Section):
    """How the text models are trained, and their sizes."""

    steps: int = Field(2500, ge=1, description="training steps of the forecaster, at most")
    namer_steps: int = Field(5000, ge=1, description="training steps of the namer, at most")
    batch: int = Field(
        16, ge=1, description="batch size: sequences of a step; of the namer 4 times as many"
    )
    learning_rate: float = Field(3e-3, gt=0, description="peak learning rate of AdamW")
    warm_up: int = Field(50, ge=0, description="learning-rate warm-up steps")
    weight_decay: float = Field(0.05, ge=0, description="weight decay of matrices; norms have none")
    clip: float = Field(1.0, gt=0, description="norm that gradients are clipped to")
    ema: float = Field(0.99, ge=0, lt=1, description="EMA decay of the weights")
    patience: int = Field(6, ge=1, description="evaluations without improvement before stopping")
    evaluate_every: int = Field(100, ge=1, description="steps between evaluations on validation A")
    evaluate_days: int = Field(12, ge=1, description="days of validation A that are evaluated")
    save_every: int = Field(100, ge=1, description="steps between checkpoints")
    log_every: int = Field(20, ge=1, description="steps between lines of metrics.jsonl")
    seed: int = Field(0, ge=0, description="the same seed gives the same model")
    width: int = Field(96, ge=4, description="model width")
    inner: int = Field(192, ge=4, description="width of the feed-forward layers")
    layers: int = Field(2, ge=1, description="blocks of the encoder, and of the decoder")
    heads: int = Field(4, ge=1, description="attention heads; they share the width evenly")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout in training")
    whole_days: int = Field(
        3, ge=0, description="last days whose phrases the forecaster reads one by one"
    )
    fewest: int = Field(3, ge=1, description="times that a word has to occur on training days")
    pretrained: Path | None = Field(
        None, description="folder of a pretrained T5, in place of a new one of these sizes"
    )

    @model_validator(mode="after")
    def _share_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must divide by heads ({self.heads})")
        return self


class StatusSettings(Section):
    """When `gdelphi status` raises the alarm."""

    stale_after_days: int = Field(
        2, ge=0, description="days that the last complete news day may lie behind today (UTC)"
    )
    volume_weeks: int = Field(8, ge=2, description="past weeks that a day's volume is held against")
    volume_factor: float = Field(
        2.0, gt=1, description="a volume this many times off its usual is always looked at"
    )


class ReportSettings(Section):
    """The morning report."""

    folder: Path | None = Field(None, description="where reports go; `reports` beside the store")
    title: str = Field("What the news may bring", description="at the top of the page")
    watchlist: tuple[str, ...] = Field(
        (), description="streams whose largest changes stand at the top; all if empty"
    )
    past_days: int = Field(60, ge=7, le=365, description="days shown before the forecast")
    backtest: Path | None = Field(
        None, description="folder of a backtest, shown until forecasts have been judged"
    )
    address: str | None = Field(
        None, description="URL under which reports are published, for the Atom feed"
    )
    charts: Literal["svg", "png"] = Field(
        "svg", description="charts as files beside the page; png: as pictures of points too"
    )


class FlowSettings(Section):
    """What runs unattended."""

    models: Path = Field(Path("models"), description="folder of models; `current` in it is in use")
    streams: str = Field("all", description="what the daily forecast is about: KE,UP, top50, all")
    daily: str = Field("30 11 * * *", description="cron of ingest, forecast, scores, report (UTC)")
    training: str = Field("0 1 * * 0", description="cron of training (UTC); empty: not scheduled")
    namer: bool = Field(
        True, description="train a namer for points too, once for a space: it may name futures"
    )
    server: str | None = Field(
        None, description="URL of a Prefect server; unset, `gdelphi serve` starts one of its own"
    )
    port: int = Field(4200, ge=1024, le=65535, description="of the Prefect server that is started")
    notify_url: str | None = Field(
        None, description="webhook that a failure is posted to, as JSON with a field text"
    )
    notify_command: str | None = Field(
        None, description="command that is run on a failure, with the message as its standard input"
    )
    timeout_hours: float = Field(12.0, gt=0, description="after which a flow is given up")
    runner: str = Field(
        "local",
        pattern=r"^(local|dask|dask:(tcp|tls|ucx|ws|wss)://\S+)$",
        description="who shares long work: local (processes of this machine), dask (workers that "
        "are started here for it), or dask:tcp://HOST:8786, the scheduler of a cluster",
    )

    @field_validator("daily", "training")
    @classmethod
    def _is_cron(cls, text: str) -> str:
        if text.strip():
            check_cron(text)
        return text


class ApiSettings(Section):
    """The HTTP API of `gdelphi api`."""

    host: str = Field(
        "127.0.0.1", description="address to listen on; others than this machine's want a token"
    )
    port: int = Field(8420, ge=0, le=65535, description="port to listen on; 0: any that is free")
    hosts: tuple[str, ...] = Field(
        (), description="names that it may be called by, beside localhost and addresses"
    )
    requests_per_minute: int = Field(
        600, ge=0, description="that one address may send; 0: any number"
    )


class AlertRule(Section):
    """When somebody is told that a probability is high."""

    name: str = Field(min_length=1, max_length=60)
    streams: tuple[str, ...] = Field((), description="countries; all if empty")
    event: str = Field("conflict", description="a code, a name or a class of events")
    target: Literal["occurs", "headline", "surge"] = "headline"
    horizon: Literal[1, 2, 3, 4, 5, 6, 7, "week"] = "week"
    threshold: float = Field(gt=0, lt=1)
    against: Literal["absolute", "usual", "last"] = Field(
        "absolute", description="what is held against the threshold: the probability, or by how "
        "much it is above its usual, or above what the forecast before said",
    )  # fmt: skip
    release: float = Field(
        0.05, ge=0, lt=1, description="how far below the threshold an alert is over"
    )


class AlertSettings(Section):
    """Who is told when a forecast changes: by flows.notify_url and flows.notify_command."""

    rules: tuple[AlertRule, ...] = Field((), description="tables [[alerts.rules]]")
    quiet_hours: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3])-([01]\d|2[0-3]))?$",
        description="hours (UTC) in which nothing is sent, as 22-07; it is held until later",
    )
    summary: Literal[
        "", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
    ] = Field("monday", description="day on which the week is summed up; empty: never")
    most: int = Field(10, ge=1, le=100, description="alerts told one by one in a run")

    @model_validator(mode="after")
    def _different_names(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ValueError("two rules have the same name")
        return self
