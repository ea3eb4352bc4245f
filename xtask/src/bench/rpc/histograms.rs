//! The server's own histograms of a stretch of time: load and wake-ups of its reactors, times of its methods.

use rpc_core::reactor::Histogram;
use rpc_server::Server;
use xtask::report;

/// What was counted before it began.
pub(super) struct Before(Vec<Named>);

struct Named {
    name: String,
    /// What a unit of the histogram is of the unit that is printed.
    scale: f64,
    histogram: Histogram<u64>,
}

impl Before {
    pub(super) fn look(server: &Server) -> Self {
        Self(all(server))
    }

    /// A table of what came since.
    pub(super) fn since(self, server: &Server) -> String {
        let mut rows = Vec::new();
        for Named { name, scale, mut histogram } in all(server) {
            if let Some(before) = self.0.iter().find(|before| before.name == name) {
                // Fails only for one that counted more before.
                let _ = histogram.subtract(&before.histogram);
            }
            if histogram.is_empty() {
                continue;
            }
            let figure = |value: f64| format!("{:.1}", value * scale);
            let quantiles = [0.5, 0.9, 0.99, 0.999].map(|q| figure(histogram.value_at_quantile(q) as f64));
            let mean = figure(histogram.mean());
            let count = report::thousands(histogram.len());
            let max = figure(histogram.max() as f64);
            rows.push([vec![name, count, mean], quantiles.into(), vec![max]].concat());
        }
        let headers = ["histogram", "count", "mean", "p50", "p90", "p99", "p99.9", "max"];
        report::table(&headers, &rows)
    }
}

fn all(server: &Server) -> Vec<Named> {
    let mut all = Vec::new();
    for (index, load) in server.reactors().load().into_iter().enumerate() {
        let name = format!("reactor {index} load, %");
        all.push(Named { name, scale: 1.0, histogram: load.load_percent });
        let name = format!("reactor {index} active latency, us");
        all.push(Named { name, scale: 1.0, histogram: load.active_latency_us });
    }
    for method in server.methods() {
        let name = format!("{} handler latency, us", method.method);
        all.push(Named { name, scale: 1e-3, histogram: method.metrics.latencies() });
        let name = format!("{} queue time, us", method.method);
        all.push(Named { name, scale: 1e-3, histogram: method.metrics.queue_times() });
    }
    all
}
