"""JSON Schemas, compiled by the extra `schema` (jsonschema-rs), so that nothing is fetched for one, and patterns take
linear time."""

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jsonschema_rs import Validator

HAS_SCHEMAS: Final = find_spec("jsonschema_rs") is not None
"""The extra is installed."""
_LOCAL: Final = ("#", "json-schema:///")


class BadSchema(ValueError):
    """A text says why this is no schema that can be used; `foreign` is what would have to be fetched for it, or ""."""

    foreign = ""


@cache
def _options() -> Any:
    from jsonschema_rs import RegexOptions

    return RegexOptions()


def compile_schema(schema: Any, mask: str | None = None) -> "Validator":
    """A schema, compiled. `mask`: stands for values in what its errors say. Raises BadSchema."""
    from jsonschema_rs import ValidationError, validator_for  # not above: few hubs need it

    asked: list[str] = []

    def refuse(uri: str) -> None:
        asked.append(uri)
        raise LookupError("nothing is fetched")

    try:
        return validator_for(schema, retriever=refuse, pattern_options=_options(), mask=mask)
    except (ValidationError, ValueError, RecursionError, OverflowError) as error:
        found = BadSchema(str(error).partition("\n")[0])
        found.foreign = next((uri for uri in asked if not uri.startswith(_LOCAL)), "")
        raise found from None
