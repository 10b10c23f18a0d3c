"""What all parts of a report's content are made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[float, Field(allow_inf_nan=False)]


class Content(BaseModel):
    """Base: unknown fields are an error, and what is made stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")
