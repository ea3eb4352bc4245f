//! A Rust client for Apache Kudu and Nyala clusters: tables, sessions, scans
