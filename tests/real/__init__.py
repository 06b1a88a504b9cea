"""Hubs between real servers and real hosts. What their fixtures share ends with the last test of this folder."""
