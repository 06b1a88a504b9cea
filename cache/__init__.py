"""The resource cache and its stores (memory, Redis or Valkey). Nothing is cached yet: every read goes to its upstream."""
