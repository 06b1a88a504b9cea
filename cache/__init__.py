"""The resource cache and its stores (memory, Redis or Valkey).

Nothing is cached yet: every `resources/read` goes to its upstream.
"""
