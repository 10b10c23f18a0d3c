"""The errors of gdelphi: named classes under one parent, all of them here.

A message says what was wrong, where, and what to do next. The command line prints it as one line
and exits non-zero; only bugs end in a traceback.
"""


class GdelphiError(Exception):
    """Parent of everything that gdelphi raises on purpose."""


class ConfigError(GdelphiError):
    """A setting is unknown, malformed or contradicts another."""


class UnknownCountry(ConfigError):
    """What is named as a country or stream is none; the message says what may be meant."""


class SystemExhausted(GdelphiError):
    """The system cannot go on, whatever the file: its disk, its memory or its file handles."""


# --- archives and their files ---------------------------------------------------------------------


class ArchiveError(GdelphiError):
    """An archive cannot be listed: wrong place, out of reach, or no list that we know."""


class FileMissing(GdelphiError):
    """The archive does not have a file that was asked for."""


class FetchFailed(GdelphiError):
    """A file exists but could not be fetched this time; trying again later may help."""


class FileRefused(GdelphiError):
    """The bytes of a file are not what they should be: checksum, zip, or kind of content."""


# --- the store ------------------------------------------------------------------------------------


class StoreError(GdelphiError):
    """The store cannot be opened or does not hold what it should."""


class StoreBusy(StoreError):
    """Another process holds the store, and waiting for it took too long."""


class StoreLost(StoreError):
    """The catalog of a lake has dropped its writer; nothing was committed, so try again."""


class StoreCrowded(StoreLost):
    """A writer's statement found no memory beside those who read; nothing was committed."""


class ReadingEnded(StoreBusy):
    """The process that answered a reader, since it writes to the store, does so no longer."""


class StoreMemoryError(StoreError):
    """A statement needs more memory than the store may use (`store_memory`)."""


class QueryError(GdelphiError):
    """A query given by the user does not run."""


# --- measures and models --------------------------------------------------------------------------


class EncoderError(GdelphiError):
    """An encoder cannot be loaded, or does not make vectors of the texts that it was given."""


class CacheError(GdelphiError):
    """The cache of embeddings cannot be read or written."""


class MeasuresError(GdelphiError):
    """Clouds, spaces or descriptors on disk are missing, or not what they should be."""


class TransportError(GdelphiError):
    """Measures cannot be transported: wrong shapes, no mass, or unknown settings."""


class TrainingError(GdelphiError):
    """A model cannot be trained, or what a training has written cannot be used."""


# --- forecasts and what becomes of them -----------------------------------------------------------


class ForecastError(GdelphiError):
    """A forecast cannot be made from what is given, or is not one."""


class ArgumentsError(GdelphiError):
    """Arguments of events cannot be read, reconstructed or judged from what is given."""


class JudgeError(GdelphiError):
    """A backtest cannot be made as asked, or what is on disk is none."""


class ReportError(GdelphiError):
    """A report cannot be made, or what is on disk is none."""


class ModelMissing(ForecastError, FileNotFoundError):
    """There is no model where one is said to be."""


class QuestionError(GdelphiError, ValueError):
    """A question cannot be answered as it is asked: a value of it is not one that it may have."""


class UnknownName(QuestionError):
    """No country, event or target has the name or code that is given."""


class NothingStored(QuestionError):
    """What is asked about is not there."""


# --- running --------------------------------------------------------------------------------------


class RunLockError(GdelphiError):
    """Another run is at work, and waiting for it took too long."""


class PipelineError(GdelphiError):
    """A step of a run has not done all that it should."""


class PromotionError(GdelphiError):
    """A model cannot be put in use, or taken out of it."""


class ServeError(GdelphiError):
    """The schedule cannot be served."""


class AccessError(GdelphiError):
    """The Prefect server cannot be closed to others, or another one is in its folder."""
