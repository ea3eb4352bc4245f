//! Kudu's messages and RPC methods in Rust: generated types, one marker per method, required-field tables
