"""The server's counters, in Prometheus form."""

import prometheus_client

# Limits of the buckets in seconds. They range from a tiny model on an idle machine to a large batch in a full queue.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counters of one server.

    They have their own registry, so that one process can run several servers.

    Attributes:
        registry: CollectorRegistry. The registry of all the counters.
        requests: Counter of answered requests, by model, method and code.
        seconds: Histogram of the time of a request, by model and method.
        under_way: Gauge of requests without an answer yet.
        waiting_rows: Gauge of rows that wait for a batch.
        batch_rows: Histogram of the rows of a batch.
        loaded: Gauge, 1 for each model and version that takes requests.
        failed_loads: Counter of versions that could not be loaded, by model.
    """

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        self.requests = prometheus_client.Counter(
            "serving_requests", "Answered requests", ["model", "method", "code"], registry=self.registry
        )
        self.seconds = prometheus_client.Histogram(
            "serving_request_seconds",
            "From the request's headers to the answer's body",
            ["model", "method"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.under_way = prometheus_client.Gauge(
            "serving_requests_under_way", "Requests that were accepted and have no answer yet", registry=self.registry
        )
        self.waiting_rows = prometheus_client.Gauge(
            "serving_waiting_rows", "Rows of requests that wait for a batch", registry=self.registry
        )
        self.batch_rows = prometheus_client.Histogram(
            "serving_batch_rows",
            "Rows of the batches that ran",
            buckets=[2**power for power in range(11)],
            registry=self.registry,
        )
        self.loaded = prometheus_client.Gauge(
            "serving_loaded_version",
            "1 for each version that takes requests",
            ["model", "version"],
            registry=self.registry,
        )
        self.failed_loads = prometheus_client.Counter(
            "serving_failed_loads", "Versions that could not be loaded", ["model"], registry=self.registry
        )

    def text(self) -> bytes:
        """Returns the page that Prometheus reads."""
        return prometheus_client.generate_latest(self.registry)
