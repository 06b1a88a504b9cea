"""Tests: their rooms mirror the product, and a module's test has its name.

`hub`, `upstreams`, `cache` and `config` hold the tests of the packages of these names; what is no single module's is
named by its theme. `support` holds what tests share: fakes, real processes, the plugins that seed chance and end tests
that hang. Then come whole hubs: `journeys` of one message between two eras, `simulation` of random worlds, `real` with
servers and clients of others, `conformance` with the official suite, `load` and `fuzz` under stress, and `guard` over
the cost of a call. `data` holds what is only read, `deps` fetches the peers. `check.sh` runs it all.

A helper is imported by its full name: `from tests.support.fakes import ...`.
"""
