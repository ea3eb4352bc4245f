//! The log says who knocked at the RPC port and what it looks like.

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use common::{eventually, master, raw, start};
use mini_cluster::MiniCluster;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_browser_and_a_tls_client_are_told_apart_in_the_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    subscriber.with_max_level(tracing::Level::WARN).init();
    let cluster = start(MiniCluster::builder().tservers(0));
    let knocks: [(&[u8], &str); 3] = [
        (b"GET / HTTP/1.1\r\n\r\n", "it looks like an HTTP client"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "it looks like a TLS client"),
        (b"hrpc\x08\x00\x00", "version 8"),
    ];
    for (bytes, words) in knocks {
        raw::connect(&master(&cluster)).write_all(bytes).unwrap();
        eventually(words, || {
            let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            log.lines().any(|line| line.contains(words) && line.contains("127.0.0.1:"))
        });
    }
}
