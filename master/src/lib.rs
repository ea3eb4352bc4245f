//! The master: catalog, placement and heartbeats behind Kudu's MasterService
