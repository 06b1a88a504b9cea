"""A Python program with spans of its own: python traced.py NAME PROGRAM ARGUMENTS...; the collector is that of
OTEL_EXPORTER_OTLP_ENDPOINT."""

import runpy
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

name, program, *arguments = sys.argv[1:]
provider = TracerProvider(resource=Resource.create({"service.name": name}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
sys.argv = [program, *arguments]
sys.path.insert(0, str(Path(program).parent))
runpy.run_path(program, run_name="__main__")
