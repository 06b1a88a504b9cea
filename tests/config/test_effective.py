"""What is shown of a configuration, as TOML; `test_config_commands` shows the whole."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from config.effective import as_toml

VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_values_are_written_as_toml_on_one_printable_line(value):
    text = as_toml(value)
    assert text.isprintable()
    assert tomllib.loads(f"key = {text}")["key"] == value
