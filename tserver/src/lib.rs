//! The tablet server: tablets behind Kudu's tablet server services
