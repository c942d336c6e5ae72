"""Stands in for the package of this name, which Chroma imports but does not use.

Chroma imports the exporter of trace spans even when telemetry is off. The real one
brings gRPC and protobuf: 25 MB to stage and a tenth of the start's imports.
"""


class OTLPSpanExporter:
    """Refuses to be made: nothing leaves this machine."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise RuntimeError("spans are not exported here: telemetry is off")
