//! One tablet replica: rows in columnar form, MVCC, writes and scans
