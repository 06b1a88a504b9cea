"""Metrics of a running hub, for Prometheus and for `hubd metrics`.

page       `MetricsPage`: writes the text, for all who ask at about the same time
families   `Families`: what is told of the hub
process    what is told of its process
"""
