"""The words of rules: `selectors` say whom and what a rule is about, `cel_conditions` ask about arguments. Pure."""
