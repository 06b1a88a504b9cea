"""Telemetry: one record of each operation that is over, and what is counted of it. Everything that shows how the hub
does reads these: nobody measures a second time.

    operation_record     `Ended`, the record; how an outcome is summed up in it (pure)
    tally                `Tally`, of one tool of one upstream; `Seconds`, of the last five minutes (pure)
    recorder             `Recorder`: makes the record where an operation ends, counts it, keeps the last ones, tells it
    record_call_contents arguments and results, where a server's configuration has them recorded
    count_sent_messages  `MessageCount`: counts what is sent to upstreams
    upstream_counts      `UpstreamCounts`, of their sessions and questions (pure)
    call_costs           prices, and tokens of results, by host and server (pure)
    alert_rules          limits beyond which something is wrong with a server, as alert rules too (pure)
    describe_calls       what people are told of all that (pure)
    overview             how everything does at a glance, with these figures (pure)
    prometheus_text      the text format of Prometheus (pure)
    tracing              stages that have operations traced; `span`: what is told of one, made when it is sent (pure);
                         `span_export`: to a collector
"""
